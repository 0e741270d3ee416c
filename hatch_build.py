"""Compiles the optional part of the package while a wheel or an editable install is made.

Where that cannot be done (no compiler, no headers of Python, GUEPARD_NO_COMPILED=1) the wheel is pure and everything
works as before, only slower: nothing is said, unless the build is asked to be verbose.
"""

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = "src/guepard/protocols/_json_numbers.c"
_TIMEOUT_S = 120


class CompiledPart(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        source = Path(self.root, _SOURCE)
        built = source.with_name(f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")
        built.unlink(missing_ok=True)  # of another compiler, or another state of the source
        if os.environ.get("GUEPARD_NO_COMPILED", "") not in ("", "0"):
            return
        if not self._compile(source, built):
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        place = built.relative_to(self.root).as_posix()
        build_data["artifacts"].append(f"/{place}")
        if version != "editable":
            build_data["force_include"][str(built)] = place.removeprefix("src/")

    def clean(self, versions: list[str]) -> None:
        for built in Path(self.root, _SOURCE).parent.glob("_json_numbers.*.so"):
            built.unlink()

    def _compile(self, source: Path, built: Path) -> bool:
        # What Python was built with is not always there; cc is what there is.
        compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or shutil.which("gcc") or "clang"]
        fresh = built.with_name(f"{built.name}.new")  # a running server may have the old one in use
        include = sysconfig.get_paths()["include"]
        command = [*compiler, "-O3", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}"]
        if sysconfig.get_platform().startswith("macosx"):
            command += ["-undefined", "dynamic_lookup"]
        try:
            done = subprocess.run(  # noqa: S603
                [*command, str(source), "-o", str(fresh)],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=True,
            )
            fresh.replace(built)
        except (OSError, subprocess.SubprocessError) as error:
            fresh.unlink(missing_ok=True)
            self.app.display_debug(
                f"guepard is built without its compiled part: {error} {getattr(error, 'stderr', '')}"
            )
            return False
        self.app.display_debug(f"guepard is built with its compiled part {done.stderr}")
        return True
