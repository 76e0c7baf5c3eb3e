"""JSON logs: one object per line, with the id of the request that the line belongs to."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the current request."""
ACCESS = logging.getLogger("serving.access")
"""Gets one record per request: method, route, status, code and seconds, never the query string or a header."""
_FIELDS = ("method", "route", "status", "code", "seconds")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time (UTC), level, logger, message, request_id, and request fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line without a line break."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := REQUEST_ID.get():
            line["request_id"] = request_id
        line |= {name: value for name in _FIELDS if (value := getattr(record, name, None)) not in (None, "")}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_json() -> None:
    """Makes all loggers of this process write JSON to standard error; uvicorn also needs `log_config=None`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)  # otherwise Pillow's warnings would not be JSON
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs the URLs of images and generators
    logging.getLogger("faiss").setLevel(logging.WARNING)  # it logs how it is loaded
