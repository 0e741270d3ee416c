#!/bin/sh
# Compiles the .proto files into the descriptors that the package reads: src/guepard/protocols/proto/descriptors.binpb.
set -eu

cd "$(dirname "$0")/../src/guepard/protocols/proto"
../../../../.venv/bin/python -m grpc_tools.protoc \
    --proto_path=guepard=. --descriptor_set_out=descriptors.binpb \
    model_config.proto open_inference.proto health.proto reflection_v1.proto reflection_v1alpha.proto
