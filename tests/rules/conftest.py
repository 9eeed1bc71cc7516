"""Rule files for the tests of the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

GOOD = """\
-- /// rule
-- title = "The loop waits for data"
-- bottleneck = "data_wait"
-- needs = ["critical_path", "step"]
-- why = "Wall time on the path."
--
-- [params.min_share]
-- default = 0.05
-- unit = "share"
-- doc = "Smallest share of the window that counts."
--
-- [evidence.waits]
-- type = "bigint"
-- doc = "Number of waits."
-- [evidence.loader]
-- type = "varchar"
-- doc = "Kind of loader."
--
-- [[experiment]]
-- when = "loader = 'single' and waits > 1"
-- hypothesis = "Workers hide {waits} waits of {cost_ns}."
-- change = "num_workers = 4"
-- kind = "system optimization"
-- guards = ["sample_coverage"]
-- stop = "no gain in 3 windows"
--
-- [[experiment]]
-- when = "loader = 'workers'"
-- hypothesis = "More workers."
-- change = "num_workers = 8"
-- kind = "system optimization"
-- guards = ["host_memory"]
-- invariants = ["sampling"]
-- measure = ["run 3 windows"]
-- stop = "host memory above 90 %"
-- rollback = "num_workers = 4"
-- ///
select
  rank,
  null::bigint as step,
  case when sum(dur_ns) filter (where cause = 'data_wait') >= $min_share * sum(dur_ns) then 'hit' else 'clear' end as status,
  coalesce(sum(dur_ns) filter (where cause = 'data_wait'), 0)::bigint as cost_ns,
  'waits on the path' as reason,
  count(*) filter (where cause = 'data_wait') as waits,
  'single' as loader
from critical_path
group by rank
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of rules with one good rule."""
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "loader.sql").write_text(GOOD)
    return rules
