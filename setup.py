"""Builds the operators in csrc/ for the Paddle of the environment that pip installs into."""

import zlib  # noqa: F401  Paddle 2.6 exports an old zlib that crashes unless this comes first

import json
import os
import runpy
import shutil
import site
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
BUILD = runpy.run_path(str(ROOT / "paddle_ops" / "_build.py"))
if BUILD["cuda_home"]():
    os.environ["CUDA_HOME"] = BUILD["cuda_home"]()  # read by Paddle as it is imported

try:
    import paddle
except ImportError:
    # pip builds in an isolated environment, but sys.prefix is still the one it installs into.
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        site.addsitedir(folder)
    try:
        import paddle
    except ImportError as error:
        raise SystemExit(
            f"paddle_ops is compiled for the Paddle that is installed, and importing it failed: "
            f"{error}\nInstall Paddle first (pip install paddlepaddle). If it is there, the build "
            "runs in another environment: add --no-build-isolation (and install setuptools, wheel)"
        ) from error

from paddle.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension


class BuildPackage(build_py):
    """Ships the C++ sources inside the wheel, for the JIT."""

    def run(self):
        super().run()
        if not getattr(self, "editable_mode", False):
            target = Path(self.build_lib, "paddle_ops", "csrc")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / "csrc", target)


class BuildBinary(BuildExtension):
    """Compiles as Paddle says, and leaves nothing but the binary and its record."""

    def run(self):
        record = json.dumps(BUILD["record"](), indent=2)
        built = Path(self.build_lib, "paddle_ops")
        kept = built / BUILD["RECORD"]
        # The folder outlives the build and may hold a binary for another Paddle.
        self.force = self.force or not kept.is_file() or kept.read_text() != record
        kept.unlink(missing_ok=True)
        # Not BuildExtension's own run: it also writes a Python stub over the package.
        build_ext.run(self)
        installed = Path(self.get_ext_fullpath(self.extensions[0].name)).parent
        for folder in {built.resolve(), installed.resolve()}:
            (folder / BUILD["RECORD"]).write_text(record)
        # Paddle builds inside the folder that becomes the wheel.
        shutil.rmtree(Path(self.build_lib, "build"), ignore_errors=True)
        for leftover in [*Path(self.build_lib).glob("*.o"), built / "version.txt"]:
            leftover.unlink(missing_ok=True)


CUDA = BUILD["uses_cuda"]()
if paddle.is_compiled_with_cuda() and not CUDA:
    print(
        "paddle_ops: this Paddle runs on GPUs, but the operators are built for the CPU only: "
        "PADDLE_OPS_CUDA is 0, or there is no nvcc (set CUDA_HOME to the folder of CUDA)",
        file=sys.stderr,
    )

extension = (CUDAExtension if CUDA else CppExtension)(
    # relative, since setuptools refuses absolute ones in source distributions
    sources=[os.path.relpath(source, ROOT) for source in BUILD["sources"]()],
    include_dirs=BUILD["include_paths"](),
    extra_compile_args={"cxx": BUILD["cxx_flags"](), "nvcc": BUILD["cuda_flags"]()},
    extra_link_args=BUILD["link_flags"](),
)
# Paddle 2.6 takes no name argument.
extension.name = f"paddle_ops.{Path(BUILD['BINARY']).stem}"

setup(
    ext_modules=[extension],
    cmdclass={"build_ext": BuildBinary, "build_py": BuildPackage},
    zip_safe=False,
)
