"""Rules: SQL files that answer hit, clear or unknown per rank and step, each with its cost and the experiments that follow."""

from traceengine.rules.experiments import fill, matching_experiments
from traceengine.rules.load import load_rules
from traceengine.rules.model import CONTRACT, KINDS_OF_CHANGE, STATUSES, EvidenceColumn, Experiment, Param, Rule, RuleSet
from traceengine.rules.run import run_rules

__all__ = [
    "CONTRACT",
    "KINDS_OF_CHANGE",
    "STATUSES",
    "EvidenceColumn",
    "Experiment",
    "Param",
    "Rule",
    "RuleSet",
    "fill",
    "load_rules",
    "matching_experiments",
    "run_rules",
]
