#!/bin/sh
# Prints the Python that the tests for GPUs run with. Where there is an NVIDIA driver, that is .venv-gpu, which it makes:
# onnxruntime-gpu cannot be in one environment with onnxruntime, whose files it replaces. Elsewhere nothing is installed,
# and the tests say in .venv what they lack.
#
#   scripts/gpu_environment.sh
#
# TENSORRT=no leaves TensorRT out, which is some gigabytes.
set -eu

cd "$(dirname "$0")/.."
venv=.venv-gpu
ready=$venv/.ready

say() { echo "guepard: $*" >&2; }

if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && ! command -v nvidia-smi >/dev/null; then
    say "no NVIDIA driver, so nothing is installed for it"
    echo .venv/bin/python
    exit
fi

is_ready() {
    [ -e "$ready" ] || return 1
    for source in pyproject.toml constraints-dev.txt scripts/gpu_environment.sh; do
        [ ! "$source" -nt "$ready" ] || return 1
    done
}

if ! is_ready; then
    say "making $venv"
    .venv/bin/python -m venv --clear "$venv"
    pip="$venv/bin/python -m pip --quiet --disable-pip-version-check"
    $pip install --constraint constraints-dev.txt --editable . pytest pytest-timeout hypothesis ml-dtypes onnx >&2
    # In this order: what is uninstalled last takes the files of both with it.
    $pip uninstall --yes onnxruntime >&2
    $pip install 'onnxruntime-gpu[cuda,cudnn]' nvidia-cublas >&2
    if [ "${TENSORRT:-yes}" != no ]; then
        libraries=$($venv/bin/python -c 'import onnxruntime.capi as c; print(c.__path__[0])')
        major=$(grep -ao 'libnvinfer\.so\.[0-9]*' "$libraries/libonnxruntime_providers_tensorrt.so" | head -n 1)
        cuda=$($venv/bin/python -c 'import onnxruntime as o; print(o.cuda_version.partition(".")[0])')
        $pip install "tensorrt-cu$cuda==${major##*.}.*" >&2 || say "TensorRT ${major##*.} for CUDA $cuda could not be installed"
    fi
    touch "$ready"
fi
echo "$venv/bin/python"
