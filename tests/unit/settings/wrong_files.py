"""Wrong configuration files, each with the words that it must be answered with."""

# Mistakes that an editor shows while they are typed, since the JSON Schema refuses them too.
SEEN_BY_THE_SCHEMA = [
    ("sever: {}", ["sever: no such option", "did you mean server?"]),
    (
        "models: [{name: m, path: m.onnx, dynamic_batching: {max_queue_dely: 2ms}}]",
        ["models[0].dynamic_batching.max_queue_dely", "did you mean max_queue_delay?"],
    ),
    ("models: [{name: m, path: m.onnx, zzz: 1}]", ["models[0].zzz", "write one of name, path, backend"]),
    ("8000: x", ["8000: no such option"]),
    ("models: [{path: m.onnx}]", ["models[0].name: missing"]),
    (
        "models: [{name: m, backend: identity, inputs: [{name: x, dims: [1]}]}]",
        ["models[0].inputs[0].datatype: missing"],
    ),
    (
        "models: [{name: m, path: m.onnx, timeout: {default_timeout_microseconds: 1s}}]",
        ["integer of microseconds", '"1s"'],
    ),
    (
        "models: [{name: m, path: m.onnx, preprocess: [{resise: {size: 224}}]}]",
        ["models[0].preprocess[0].resise: no such step", "did you mean resize?"],
    ),
    (
        "models: [{name: m, path: m.onnx, postprocess: [zzz]}]",
        ["models[0].postprocess[0].zzz: no such step", "write one of softmax, sigmoid"],
    ),
    (
        "models: [{name: m, path: m.onnx, preprocess: [{resize: {sise: 224}}]}]",
        ["models[0].preprocess[0].resize.sise: no such option", "did you mean size?"],
    ),
    (
        "models: [{name: m, path: m.onnx, preprocess: [{resize: {size: 0}}]}]",
        ["models[0].preprocess[0].resize.size: expected an integer from 1 to 65535 or a list of", "got 0"],
    ),
    (
        "models: [{name: m, path: m.onnx, preprocess: [{decode_image: {}, resize: {}}]}]",
        ["models[0].preprocess[0]: expected one step, got decode_image, resize", "an entry of its own"],
    ),
    ("models: [{name: m, path: m.onnx, preprocess: [{}]}]", ["preprocess[0]: expected one step, got none"]),
    ("models: [{name: m, path: m.onnx, preprocess: [1]}]", ["preprocess[0]: expected a step out of decode_image"]),
    ("models: [{name: m, path: m.onnx, preprocess: {cast: {}}}]", ["preprocess: expected a list of steps out of"]),
    ("models: [{name: m, path: m.onnx, preprocess: [cast]}]", ["preprocess[0].cast.datatype: missing; write one of"]),
    ("server: {http_port: eighty}", ["server.http_port: expected an integer from 0 to 65535", '"eighty"']),
    ("server: {http_port: 65536}", ["server.http_port", "0 to 65535", "65536"]),
    ("server: {http_port: true}", ["server.http_port", "got true"]),
    ("server: {http_port: }", ["server.http_port", "got nothing"]),
    ("server: {workers: 4}", ["server.workers: expected 1, got 4", "this version serves with one worker"]),
    ("server: {keep_alive: 75}", ["server.keep_alive", "write 75s or 75ms"]),
    ("server: {body_timeout: 0}", ["server.body_timeout: expected a duration above 0"]),
    ("server: {max_request_bytes: 1 potato}", ["server.max_request_bytes", "unknown unit 'potato'", "MiB"]),
    ("server: {model_control_mode: poll}", ["none, explicit", '"poll"', "not part of this version"]),
    ("server: {load_model: m}", ["server.load_model: expected a list of texts", 'write ["m"]']),
    ("server: {host: 12}", ["server.host: expected text, got 12", 'put it in quotes: "12"']),
    ("server: [1]", ["server: expected a mapping of host", "got a list"]),
    ("[1, 2]", ["the file: expected a mapping of server, models"]),
    ("auth: {anonymous: [everything]}", ["auth.anonymous[0]: expected one of infer, manage, observe"]),
    ("models: {name: m}", ["models: expected a list of mappings"]),
    (
        "models: [{name: m, path: m.onnx, instance_group: [{count: 1}, {count: 2}]}]",
        ["instance_group", "one entry", "got 2"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {count: 0}}]",
        ["instance_group.count", "from 1 to 1024 or auto", "got 0"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {count: 100000}}]",
        ["instance_group.count", "from 1 to 1024 or auto", "got 100000"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: [{kind: KIND_MODEL}]}]",
        ["instance_group[0].kind", "auto, cpu, gpu"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {kind: gpu, gpus: [-1]}}]",
        ["instance_group.gpus[0]", "from 0 to 1023"],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {providers: [rocm]}}]",
        ["onnxruntime.providers[0]", "tensorrt, cuda, cpu", '"rocm"'],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {cuda: {options: {prefer_nhwc: 1}}}}]",
        ["onnxruntime.cuda.options.prefer_nhwc", "expected text", 'put it in quotes: "1"'],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {cuda: {options: {gpu_mem_limit: '1'}}}}]",
        ["onnxruntime.cuda.options.gpu_mem_limit", "an option of its own"],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {tensorrt: {options: {trt_dla_enable: 'True'}}}}]",
        ["onnxruntime.tensorrt.options.trt_dla_enable", "an option of its own"],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {tensorrt: {builder_optimization_level: 6}}}]",
        ["builder_optimization_level", "from 0 to 5"],
    ),
    ("models: [{name: m, path: m.onnx, gpu_memory_limit: 0}]", ["gpu_memory_limit", "a size above 0"]),
    (
        "models: [{name: m, path: m.onnx, instance_group: {execution: fiber}}]",
        ["auto, inline, thread, process"],
    ),
    (
        "models: [{name: m, path: m.onnx, padding: {inputs: {ids: pad}}}]",
        ["models[0].padding.inputs", "pad"],
    ),
    ("models: [{name: m, path: m.onnx, padding: {outputs: {y: -1}}}]", ["padding.outputs", "-1"]),
    ("models: [{name: m, path: m.onnx, padding: {buckets: [0, 8]}}]", ["padding.buckets", "0"]),
    ("models: [{name: m, path: m.onnx, padding: {buckets: [8, 16777217]}}]", ["padding.buckets[1]", "to 16777216"]),
    ("models: [{name: m, path: m.onnx, padding: {max_tokens: 0}}]", ["padding.max_tokens", "0"]),
    ("models: [{name: m, path: m.onnx, padding: {max_tokens: 2147483648}}]", ["padding.max_tokens", "to 2147483647"]),
    ("models: [{name: m, path: m.onnx, padding: {max_padding: 2147483648}}]", ["padding.max_padding", "to 2147483647"]),
    ("models: [{name: m, path: m.onnx, padding: {length: 8}}]", ["padding.length", "no such option"]),
    (
        "models: [{name: m, backend: identity, inputs: [{name: x, datatype: FP8, dims: [1]}]}]",
        ["datatype", "FP16", '"FP8"'],
    ),
    (
        "models: [{name: m, backend: identity, inputs: [{name: x, datatype: FP32, dims: [-2]}]}]",
        ["dims[0]", "-1 or more"],
    ),
]
# Mistakes in the text of the file, in names that packages may add to, in what a path leads to, and between options.
BEYOND_THE_SCHEMA = [
    (
        "models: [{name: m, path: m.onnx, backend: tensorrt}]",
        ["models[0].backend", "auto, onnxruntime", "python, identity"],
    ),
    ("models: [{name: m}]", ["models[0].path: missing; write the model's file or folder"]),
    ("models: [{name: m, backend: identity}]", ["models[0].inputs", "identity"]),
    (
        "defaults: {dynamic_batching: {max_queue_delay: 1ms, max_queue_delay_microseconds: 5}}",
        ["defaults.dynamic_batching", "max_queue_delay or max_queue_delay_microseconds, not both"],
    ),
    ("logging: {sample_rate: .nan}", ["logging.sample_rate", "from 0 to 1"]),
    ("models: [{name: m, path: m.onnx, parameters: {day: 2024-01-01}}]", ["models[0].parameters.day", "2024-01-01"]),
    ("models: [{name: m, path: m.onnx, parameters: &a {again: *a}}]", ["models[0].parameters.again"]),
    ("models: [{name: m, path: m.onnx, parameters: {1: x}}]", ["models[0].parameters", "the key 1 is not text"]),
    (
        "models: [{name: m, path: m.onnx}]\nserver: {cache_dir: ' '}",
        ["server.cache_dir: empty", "none to keep nothing"],
    ),
    (
        "models: [{name: m, path: m.onnx}]\nserver: {http_port: 9000, metrics_port: 9000}",
        ["server.metrics_port: 9000 is server.http_port too"],
    ),
    (
        "models: [{name: m, path: m.onnx}]\nserver: {load_model: [m]}",
        ["server.load_model", "model_control_mode: explicit"],
    ),
    ("server: {allow_client_shm: ['']}", ["server.allow_client_shm[0]: '' is not the beginning", "guepard-"]),
    ("server: {allow_client_shm: [a, /]}", ["server.allow_client_shm[1]: '/' is not the beginning"]),
    ("server: {allow_client_shm: [../x]}", ["server.allow_client_shm[0]: '../x' is not the beginning"]),
    (
        "models: [{name: m, path: m.onnx, timeout: {default: 1h}}]",
        ["models[0].timeout.default: 1h is above timeout.max, 5m"],
    ),
    (
        "models: [{name: m, path: m.onnx, max_batch_size: 4, dynamic_batching: {preferred_batch_size: [2, 8]}}]",
        ["models[0].dynamic_batching.preferred_batch_size: 8 is above max_batch_size, 4"],
    ),
    (
        "models: [{name: m, path: a.onnx}, {name: m, path: b.onnx}]",
        ["models[1]", "m is taken by", "models[0]", "rename"],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {providers: [cuda, CUDAExecutionProvider]}}]",
        ["models[0].onnxruntime.providers: cuda, cuda names one twice"],
    ),
    ("defaults: {onnxruntime: {providers: [cpu, cuda]}}", ["defaults.onnxruntime.providers: cpu", "write it last"]),
    (
        "models: [{name: m, path: m.onnx, instance_group: {kind: cpu}, onnxruntime: {providers: [cuda]}}]",
        ["models[0].instance_group.kind: is cpu", "names cuda"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {kind: gpu}, onnxruntime: {providers: [cpu]}}]",
        ["models[0].onnxruntime.providers: names cpu alone", "write [cuda, cpu]"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {kind: gpu, gpus: [1, 1]}}]",
        ["models[0].instance_group.gpus: names a GPU twice"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {gpus: [1]}}]",
        ["models[0].instance_group.gpus: nothing asks for a GPU"],
    ),
    (
        "models: [{name: m, path: m.onnx, instance_group: {kind: gpu, gpus: [1]}, onnxruntime: {device_id: 0}}]",
        ["models[0].onnxruntime.device_id: is 0", "write one of them"],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: {tensorrt: {enable_cuda_graph: true}}}]",
        ["models[0].onnxruntime.tensorrt.enable_cuda_graph", "not among the providers"],
    ),
    (
        "models: [{name: m, path: m.onnx, onnxruntime: "
        "{providers: [tensorrt, cuda], cuda: {enable_cuda_graph: true}}}]",
        ["models[0].onnxruntime.cuda.enable_cuda_graph", "write it under tensorrt"],
    ),
    ("model_repository: [nowhere]", ["nowhere: no such file or folder"]),
    (
        "models: [{name: m, path: 'http://host:8000'}]",
        ["models[0].path", "remote upstreams are not part of this version"],
    ),
    ("models: [{name: m, path: m.tar.gz}]", ["models[0].path", "unpack it and name the folder"]),
    ("server:\n  http_port: 1\n  host: x\n  http_port: 2", ["line 4: http_port is written twice, first in line 2"]),
    ("server:\n  host: [", ["line 2: not valid YAML"]),
    ("server:\n\thost: x", ["line 2: not valid YAML"]),
    ("a: 1\n---\nb: 2", ["line 2: not valid YAML"]),
    ("server: !!python/object/apply:os.system ['true']", ["line 1: not valid YAML"]),
    ("server: {host: \x01}", ["line 1: a character that YAML does not allow"]),
    ("[" * 5_000, ["not valid YAML", "nested too deeply"]),
]
WRONG_FILES = [*SEEN_BY_THE_SCHEMA, *BEYOND_THE_SCHEMA]
