"""Options of curl: which change the request, which only concern curl, and which cannot be had. Source: curl(1)."""

SHORT = {
    "X": "request", "H": "header", "d": "data", "F": "form", "u": "user", "k": "insecure", "G": "get", "I": "head",
    "A": "user-agent", "e": "referer", "b": "cookie", "m": "max-time", "s": "silent", "S": "show-error", "o": "output",
    "O": "remote-name", "v": "verbose", "i": "include", "f": "fail", "L": "location", "N": "no-buffer", "g": "globoff",
    "w": "write-out", "D": "dump-header", "c": "cookie-jar", "x": "proxy", "T": "upload-file", "E": "cert",
    "K": "config", "n": "netrc", "q": "disable", "#": "progress-bar", "4": "ipv4", "6": "ipv6", "0": "http1.0",
    "J": "remote-header-name", ":": "next",
}  # fmt: skip

DATA = ("data", "data-ascii", "data-raw", "data-binary", "data-urlencode", "json")
VALUES = frozenset(
    (*DATA, "request", "header", "user", "url", "user-agent", "referer", "cookie", "cacert", "oauth2-bearer")
)
FLAGS = frozenset(("insecure", "get", "head"))

SILENT = frozenset((
    "silent", "show-error", "verbose", "include", "fail", "fail-with-body", "no-buffer", "globoff", "progress-bar",
    "no-progress-meter", "remote-name", "remote-header-name", "http1.1", "disable", "tcp-nodelay", "path-as-is", "ipv4",
    "ipv6", "basic",
))  # fmt: skip
SILENT_VALUES = frozenset((
    "output", "write-out", "dump-header", "cookie-jar", "stderr", "trace", "trace-ascii", "noproxy",
))  # fmt: skip

NOTED = {
    "compressed": "answers are asked for without compression",
    "location": "redirects are not followed",
    "http2": "HTTP/1.1 is spoken",
    "http2-prior-knowledge": "HTTP/1.1 is spoken",
    "http3": "HTTP/1.1 is spoken",
}
NOTED_VALUES = {
    "max-time": "--timeout says how long an answer is waited for",
    "connect-timeout": "--timeout says how long an answer is waited for",
    "retry": "nothing is tried again",
    "retry-delay": "nothing is tried again",
    "retry-max-time": "nothing is tried again",
    "limit-rate": "answers are read as fast as they come",
}

REFUSED = {
    "form": "multipart bodies are not built; save the body to a file and send it with --data-binary @FILE and its "
    "Content-Type",
    "form-string": "multipart bodies are not built; send the body with --data-binary @FILE",
    "unix-socket": "only TCP is measured; let the server listen on a port",
    "abstract-unix-socket": "only TCP is measured; let the server listen on a port",
    "proxy": "a proxy would be measured with the target; connect directly",
    "upload-file": "send the file with -X PUT --data-binary @FILE",
    "cert": "client certificates are not presented; measure behind that check",
    "key": "client certificates are not presented; measure behind that check",
    "resolve": "write the address into the URL and the name into -H 'Host: …'",
    "connect-to": "write the address into the URL and the name into -H 'Host: …'",
    "next": "one request is measured; give the others as lines of --data FILE",
    "config": "write its options into the command",
    "netrc": "write the credentials with -u",
    "digest": "only Basic and Bearer are sent; give -H 'Authorization: …'",
    "http1.0": "HTTP/1.1 is measured",
}


def takes_value(name: str) -> bool:
    """Of an option that is not refused."""
    return name in VALUES or name in SILENT_VALUES or name in NOTED_VALUES
