"""Certificates for the servers of tests, made by openssl."""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

_AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/{name}.db
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = none
[none]
"""


class Certificate(NamedTuple):
    """Self-signed, so it is its own authority."""

    file: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


def make_certificate(folder: Path, *names: str, is_expired: bool = False) -> Certificate:
    """For host names and IPv4 addresses, in files of `folder` named after the first."""
    name = names[0]
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    config, request = folder / f"{name}.cnf", folder / f"{name}.csr"
    config.write_text(_AUTHORITY.format(folder=folder, name=name))
    Path(f"{folder}/{name}.db").write_text("")
    alternatives = ",".join(f"{'IP' if each.replace('.', '').isdigit() else 'DNS'}:{each}" for each in names)
    asking = ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    asking += ["-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}", "-keyout", str(made.key)]
    signing = ["ca", "-selfsign", "-batch", "-notext", "-in", str(request), "-keyfile", str(made.key)]
    signing += ["-startdate", "20200101000000Z"] if is_expired else []
    signing += ["-enddate", "20200102000000Z"] if is_expired else ["-days", "2"]
    for words, output in ((asking, request), (signing, made.file)):
        command = ["openssl", *words, "-config", str(config), "-out", str(output)]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    return made
