"""From traces to a run: `import_traces` reads whatever people have and writes one run.

Each source format has its own package behind this interface; nothing outside `importers` knows a format's names.
"""

from __future__ import annotations

from traceengine.importers.api import ImportRequest, import_traces
from traceengine.importers.inputs import expand_inputs
from traceengine.importers.progress import ProgressSink

__all__ = ["ImportRequest", "ProgressSink", "expand_inputs", "import_traces"]
