"""What question and URL say together, before the target is asked anything."""

from typing import NamedTuple

from guepard.bench.targets.connection import check_ca_file, is_same_machine
from guepard.bench.targets.header_lines import Headers, basic_authorization, overlaid, read_headers
from guepard.bench.targets.http_asker import HttpAsker, Patience
from guepard.bench.targets.target_question import TENSOR_PROTOCOLS, TargetQuestion
from guepard.bench.targets.target_url import TargetUrl
from guepard.bench.targets.url_kind import UrlKind, url_kind
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import Endpoint
from guepard.measure.results import Target


class NamedTarget(NamedTuple):
    """`headers` are those of the user, with the URL's credentials among them."""

    question: TargetQuestion
    url: TargetUrl
    kind: UrlKind
    endpoint: Endpoint
    headers: Headers
    patience: Patience

    @property
    def model(self) -> str | None:
        return self.question.model or self.kind.model

    @property
    def version(self) -> str | None:
        return self.question.model_version or self.kind.version

    def asker(self) -> HttpAsker:
        return HttpAsker(self.url, self.endpoint, self.headers, self.question.timeout_s, self.patience)

    def told(self, protocol: str, model: str | None, version: str | None, server: str | None) -> Target:
        """The target as results show it."""
        return Target(
            url=self.url.shown,
            protocol=protocol,
            model=model,
            model_version=version,
            server=server,
            same_machine=is_same_machine(self.url.host),
        )


def named_target(question: TargetQuestion) -> NamedTarget:
    """Raises: ConfigurationError for a URL that cannot be, and for words that contradict it."""
    url = TargetUrl.read(question.url)
    check_ca_file(question.ca_file)
    kind = url_kind(url)
    if question.protocol != "auto":
        if url.is_grpc and question.protocol != "oip-grpc":
            raise ConfigurationError(f"--protocol {question.protocol}: {url.scheme}:// is for oip-grpc; write http://")
        if kind.protocol is not None and not _agree(kind.protocol, question.protocol):
            kind = UrlKind(None, url.path.rstrip("/"))
    for name, said, asked in (
        ("model", kind.model, question.model),
        ("model-version", kind.version, question.model_version),
    ):
        if said is not None and asked is not None and said != asked:
            raise ConfigurationError(f"--{name} {asked}: the URL names {said}; leave one of them out")
    grpc = url.is_grpc or question.protocol == "oip-grpc"
    endpoint = url.endpoint(ca_file=question.ca_file, insecure=question.insecure, grpc=grpc)
    headers = read_headers(question.headers)
    if url.user is not None:
        headers = overlaid([basic_authorization(url.user, url.password)], headers)
    return NamedTarget(question, url, kind, endpoint, headers, Patience(question.wait_ready_s))


def _agree(of_path: str, asked: str) -> bool:
    """Whether the path of one protocol's URL still tells prefix and model of another's."""
    return of_path == asked or (of_path in TENSOR_PROTOCOLS and asked in TENSOR_PROTOCOLS)
