"""Every fault of a rule file is named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import build_run

from traceengine.errors import RuleError, UsageError
from traceengine.rules import load_rules
from traceengine.rules.defaults import load_defaults
from traceengine.rules.model import CONTRACT, EVIDENCE_TYPES, KINDS_OF_CHANGE
from traceengine.sql import open_empty_sandbox


def test_a_good_rule_is_read_whole(folder: Path) -> None:
    rules = load_rules([folder])
    assert [rule.id for rule in rules] == ["loader"]
    rule = rules.rule("loader")
    assert (rule.bottleneck, rule.needs) == ("data_wait", ("critical_path", "step"))
    assert [(param.name, param.default, param.unit) for param in rule.params] == [("min_share", 0.05, "share")]
    assert [(column.name, column.type) for column in rule.evidence] == [("waits", "bigint"), ("loader", "varchar")]
    assert [experiment.rollback for experiment in rule.experiments] == [load_defaults().rollback, "num_workers = 4"]
    assert (rule.experiments[0].measure, rule.experiments[1].measure) == (load_defaults().measure, ("run 3 windows",))
    assert rule.experiments[1].invariants == ("sampling",)
    with pytest.raises(UsageError, match="no rule is called 'x'"):
        rules.rule("x")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-- /// rule", "-- /// view", ":1: does not begin with the header line `-- /// rule`"),
        ("-- ///\nselect", "--\nselect", ":1: the header is not closed"),
        ("-- ///\nselect", "select\n-- ///\nselect", ":37: a header line must begin with `--`"),
        ('-- title = "The', "-- title = The", ":2: the header is not valid TOML"),
        ("-- title =", "-- titel =", ":2: unknown key 'titel' in the header"),
        ("-- needs =", "-- need =", ":4: unknown key 'need' in the header"),
        ('-- why = "Wall time on the path."\n', "", ":1: the header has no 'why'"),
        ('"data_wait"\n-- needs', '"data_weight"\n-- needs', ":3: unknown bottleneck 'data_weight'"),
        ('"step"]', '"stop"]', ":4: needs 'stop', which is no table or view"),
        ("-- default = 0.05", "-- default = [1]", "param 'min_share' needs a default"),
        ("-- default = 0.05\n", "", "param 'min_share' needs a default"),
        ('-- doc = "Smallest share of the window that counts."\n', "", "param 'min_share' has no 'doc'"),
        ('-- unit = "share"', '-- unit = "percent"', ":9: param 'min_share' has the unknown unit 'percent'"),
        ('-- type = "bigint"', '-- type = "int"', "evidence 'waits' has the unknown type 'int'"),
        ("[evidence.waits]", "[evidence.reason]", "evidence 'reason' is a column of the contract already"),
        ("-- kind = ", "-- sort = ", "unknown key 'sort' in an [[experiment]]"),
        ('-- kind = "system optimization"\n', '-- kind = "magic"\n', ":23: unknown kind of change 'magic'"),
        ('-- hypothesis = "More workers."\n', "", "an [[experiment]] has no 'hypothesis'"),
        ('-- guards = ["host_memory"]\n', "", "an [[experiment]] has no 'guards'"),
        ('-- guards = ["host_memory"]\n', '-- guards = "host_memory"\n', "'guards' of an [[experiment]] must be a list of texts"),
        ("{waits} waits", "{weights} waits", ":21: {weights} is no evidence column"),
        ("and waits > 1", "and weights > 1", ':20: the condition "loader = \'single\' and weights > 1" fails'),
        ("and waits > 1", "and", "the condition"),
        ("loader = 'single' and waits > 1", "waits + 1", "it is not a boolean"),
        ("loader = 'single' and waits > 1", "waits > 1, true", "the condition"),
        ("loader = 'single' and waits > 1", "waits > (select count(*) from read_csv('/etc/passwd'))", "the condition"),
        ("$min_share", "$max_share", ":38: uses $max_share, which is not declared"),
        ("$min_share", "0.05", ":7: param 'min_share' is declared and not used"),
        ("'single' as loader", "'single' as ladder", "returns the columns"),
        ("'single' as loader", "1.5::double as loader", "column 'loader' is double instead of string: cast it"),
        ("  rank,\n", "", "returns the columns"),
        ("count(*) filter", "sum(1) filter", "column 'waits' is decimal128(38, 0) instead of int64: cast it"),
        ("from critical_path", "from critical_pat", ":38: the query fails: no table or view is called 'critical_pat'"),
        ("from critical_path", "from read_csv('/etc/passwd')", "refused"),
        ("group by rank\n", "group by rank;\nselect 1\n", "2 statements at once"),
        ("select\n  rank,", "create table x as select\n  rank,", "CREATE is refused"),
        ("group by rank\n", "group by\n", "is not valid SQL"),
    ],
)
def test_fault_is_named_with_file_and_line(folder: Path, old: str, new: str, message: str) -> None:
    path = folder / "loader.sql"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        load_rules([folder])
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stop = ", "is not valid TOML"),
        ('stop = "x"', "holds stop instead of invariants, measure, stop, rollback"),
        ('invariants = ["a"]\nmeasure = []\nstop = "x"\nrollback = "y"', "'measure' must be a list of texts"),
        ('invariants = ["a"]\nmeasure = ["b"]\nstop = " "\nrollback = "y"', "'stop' must be a text that is not empty"),
    ],
)
def test_a_fault_of_the_shared_texts_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(RuleError) as caught:
        load_defaults(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_ids_are_unique_over_folders(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "loader.sql").write_text((folder / "loader.sql").read_text())
    with pytest.raises(RuleError, match="the id 'loader' is taken by"):
        load_rules([folder, other])


def test_an_empty_file_and_a_missing_folder_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="is no folder"):
        load_rules([tmp_path / "nowhere"])
    (folder / "empty.sql").write_text("")
    with pytest.raises(RuleError, match=r"empty\.sql:1: does not begin"):
        load_rules([folder])


def test_a_header_without_a_query_is_named(folder: Path) -> None:
    text = (folder / "loader.sql").read_text()
    (folder / "loader.sql").write_text(text[: text.index("select\n")])
    with pytest.raises(RuleError, match="has no SELECT after its header"):
        load_rules([folder])


def test_types_of_the_empty_sandbox_are_those_of_a_run(tmp_path: Path) -> None:
    """Load checks run without a trace, so columns must have the same types with and without rows."""
    from traceengine.sql import open_sandbox

    run = build_run(tmp_path / "run", device_event="ts_ns | dur_ns | args\n0 | 1 | {}")
    with open_empty_sandbox() as empty, open_sandbox(run) as full:
        for name in ("device_event", "source", "step", "device_time"):
            assert [str(kind) for kind in empty.table(name).types] == [str(kind) for kind in full.table(name).types]


def test_model_and_documented_words_agree() -> None:
    assert [name for name, _ in CONTRACT] == ["rank", "step", "status", "cost_ns", "reason"]
    assert KINDS_OF_CHANGE == ("correctness repair", "system optimization", "training change")
    assert set(EVIDENCE_TYPES) == {"bigint", "double", "boolean", "varchar"}
