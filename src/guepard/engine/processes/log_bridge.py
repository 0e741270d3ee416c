"""Log records of a process instance, written by the server: one log, one format, one level."""

import logging
import traceback

from guepard.transport.channel import Channel, ChannelClosed
from guepard.transport.frames import Record, ToWorker


class RemoteError(Exception):
    """What was raised in another process, as the text of its traceback."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


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
        try:
            self._control.send(Record(_clean(record.name), record.levelno, _clean(text), _clean(trace)))
        except ChannelClosed:
            return  # the server has gone, and this process is about to


def write(record: Record) -> None:
    """In the server: log what came."""
    logger = logging.getLogger(record.logger)
    if not logger.isEnabledFor(record.level):
        return
    error = RemoteError(record.trace.rstrip()) if record.trace else None
    logger.handle(
        logger.makeRecord(
            record.logger, record.level, "", 0, record.text, (), (type(error), error, None) if error else None
        )
    )


def _clean(text: str) -> str:
    """`text` as UTF-8 can carry it."""
    return text.encode(errors="replace").decode()
