"""The guarded experiment's record: from a verdict's card to a versioned JSON document."""

from traceengine.experiment.record import (
    CONTRACT,
    SCHEMA_VERSION,
    Bound,
    Change,
    Check,
    Constraint,
    Decision,
    Fact,
    Query,
    Record,
    json_schema,
    render,
)
from traceengine.experiment.start import new_record

__all__ = [
    "CONTRACT",
    "SCHEMA_VERSION",
    "Bound",
    "Change",
    "Check",
    "Constraint",
    "Decision",
    "Fact",
    "Query",
    "Record",
    "json_schema",
    "new_record",
    "render",
]
