"""traceengine: where a training step's wall time went, and the one guarded experiment to run next."""

from traceengine.errors import TraceEngineError

__version__ = "0.1.0"
__all__ = ["TraceEngineError", "__version__"]
