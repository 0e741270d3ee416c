"""Log records of a process instance, written by the server: one log, one format, one level."""

import logging
import traceback

from guepard.telemetry.log_format import RESERVED, own_fields
from guepard.transport.channel import Channel, ChannelClosed
from guepard.transport.frames import Record, ToWorker

Plain = str | int | float | bool | None

_INTEGERS = range(-(2**63), 2**64)


class RemoteError(Exception):
    """What was raised in another process, with its text. Written with its traceback it reads as it did there."""


def remote_error(trace: str) -> RemoteError:
    """`trace` is the text of the traceback.

    Whoever writes an exception ends with the qualified name of its class, a colon and its text. So all that stands
    before that text is the name of this one's class.
    """
    trace = trace.rstrip()
    end = trace.find(": ", trace.rfind("\n") + 1)
    name, text = (trace, "") if end < 0 else (trace[:end], trace[end + 2 :])
    # Of names from `builtins` the module is not written.
    own_class = type(RemoteError.__name__, (RemoteError,), {"__module__": "builtins", "__qualname__": name})
    error: RemoteError = own_class(text)
    return error


class BridgeHandler(logging.Handler):
    """In the process: sends each record to the server."""

    def __init__(self, control: Channel[ToWorker]) -> None:
        super().__init__()
        self._control = control

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # arguments that do not fit their message must not cost the record
            text = str(record.msg)
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        fields = {_clean(key): _plain(value) for key, value in own_fields(record).items()}
        try:
            self._control.send(Record(_clean(record.name), record.levelno, _clean(text), _clean(trace), fields))
        except ChannelClosed:
            return  # the server has gone, and this process is about to
        except Exception:
            self.handleError(record)


def write(record: Record) -> None:
    """In the server: log what came."""
    logger = logging.getLogger(record.logger)
    if not logger.isEnabledFor(record.level):
        return
    error = remote_error(record.trace) if record.trace else None
    fields = {key: value for key, value in record.fields.items() if key not in RESERVED}
    exc_info = (type(error), error, None) if error else None
    logger.handle(logger.makeRecord(record.logger, record.level, "", 0, record.text, (), exc_info, None, fields))


def _clean(text: str) -> str:
    """`text` as UTF-8 can carry it."""
    return text.encode(errors="replace").decode()


def _plain(value: object) -> Plain:
    """`value`, or its text where no frame holds it as it is."""
    if value is None or type(value) in (bool, float) or (type(value) is int and value in _INTEGERS):
        return value  # type: ignore[return-value]
    try:
        return _clean(str(value))
    except Exception:
        return type(value).__name__
