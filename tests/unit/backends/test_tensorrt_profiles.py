"""The shapes that a TensorRT engine is built for."""

import pytest

from guepard.backends.tensorrt_profiles import Profile, find_profile, read_shapes, write_shapes
from guepard.core.engine_options import TensorRtOptions
from guepard.core.errors import LoadError
from guepard.core.padding import PaddingRules
from guepard.core.tensor import TensorSpec

IMAGE = TensorSpec("image", "FP32", [3, 224, 224])
IDS, MASK = TensorSpec("ids", "INT64", [-1]), TensorSpec("mask", "INT64", [-1])
BUCKETS = PaddingRules(inputs={"ids": 0, "mask": 0}, buckets=(16, 64, 128))


def options(smallest: str | None = None, usual: str | None = None, largest: str | None = None) -> TensorRtOptions:
    return TensorRtOptions(profile_min_shapes=smallest, profile_opt_shapes=usual, profile_max_shapes=largest)


class TestText:
    def test_both_ways(self) -> None:
        text = "input_ids:1x128,onnx::Conv:0:2x3x224x224,scalars:4"
        shapes = {"input_ids": (1, 128), "onnx::Conv:0": (2, 3, 224, 224), "scalars": (4,)}
        assert read_shapes(text, "o") == shapes
        assert write_shapes(shapes) == text
        assert read_shapes(" a:1 , b:2x3", "o") == {"a": (1,), "b": (2, 3)}
        assert write_shapes({}) == ""

    @pytest.mark.parametrize("text", ["", "x", "x:", ":1x2", "x:1x", "x:-1x3", "x:1X3", "x:1,,y:2", "x:1.5", "x:²"])
    def test_what_is_no_shape_is_refused_with_the_option(self, text: str) -> None:
        with pytest.raises(LoadError, match=r"^profile_min_shapes: .* is no shape; write input:1x3x224x224"):
            read_shapes(text, "profile_min_shapes")

    def test_an_input_twice(self) -> None:
        with pytest.raises(LoadError, match="input 'x' is there twice"):
            read_shapes("x:1,x:2", "o")

    def test_more_than_fits(self) -> None:
        read_shapes("x:2147483647", "o")
        with pytest.raises(LoadError, match="larger than TensorRT counts"):
            read_shapes("x:1x2147483648", "o")


class TestDerived:
    def test_fixed_inputs_vary_by_their_rows(self) -> None:
        assert find_profile(options(), [IMAGE], 32, None) == Profile(
            {"image": (1, 3, 224, 224)}, {"image": (32, 3, 224, 224)}, {"image": (32, 3, 224, 224)}
        )

    def test_lengths_go_from_the_first_bucket_to_the_last(self) -> None:
        found = find_profile(options(), [IDS, MASK], 8, BUCKETS)
        assert found.min == {"ids": (1, 16), "mask": (1, 16)}
        assert found.opt == found.max == {"ids": (8, 128), "mask": (8, 128)}

    def test_nothing_that_varies_needs_no_profile(self) -> None:
        assert find_profile(options(), [TensorSpec("x", "FP32", [1, 3])], 0, None) == Profile({}, {}, {})

    @pytest.mark.parametrize(
        "padding",
        [
            None,
            PaddingRules(inputs={"ids": 0}),
            PaddingRules(buckets=(8,)),
            PaddingRules(inputs={"x": 0}, buckets=(8,)),
        ],
    )
    def test_a_length_without_bounds_is_refused(self, padding: PaddingRules | None) -> None:
        with pytest.raises(LoadError, match=r"how large input 'ids', \[-1\], may be; write padding.buckets"):
            find_profile(options(), [IDS], 8, padding)

    def test_without_a_batch_a_free_dimension_has_no_bounds_either(self) -> None:
        with pytest.raises(LoadError, match="how large input 'ids'"):
            find_profile(options(), [IDS], 0, None)


class TestSaid:
    def test_shapes_are_taken_as_they_are(self) -> None:
        found = find_profile(options("ids:1x8", "ids:4x32", "ids:8x64"), [IDS], 8, BUCKETS)
        assert found == Profile({"ids": (1, 8)}, {"ids": (4, 32)}, {"ids": (8, 64)})

    def test_the_usual_ones_are_the_largest_unless_said(self) -> None:
        assert find_profile(options("ids:1x8", None, "ids:8x64"), [IDS], 8, None).opt == {"ids": (8, 64)}

    def test_what_does_not_vary_is_left_out(self) -> None:
        fixed = TensorSpec("fixed", "FP32", [2, 2])
        free = TensorSpec("free", "FP32", [-1, 2])
        found = find_profile(options("free:1x2,fixed:2x2", None, "free:9x2"), [free, fixed], 0, None)
        assert found.min == {"free": (1, 2)}

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            (("ids:1x8", None, None), r"profile_max_shapes: missing; the smallest and the largest"),
            ((None, "ids:1x8", None), r"profile_min_shapes: missing"),
            (("ids:1x8,y:1", None, "ids:8x64"), r"profile_min_shapes: the model has no input 'y'; it has ids, mask"),
            (("ids:1x8,mask:1x8", None, "ids:8x64"), r"profile_max_shapes: input 'mask' varies and is not there"),
            (("ids:1,mask:1x8", None, "ids:8x64,mask:8x64"), r"\[1\] does not fit input 'ids', which is \[-1, -1\]"),
            (("ids:1x9,mask:1x8", None, "ids:8x8,mask:8x8"), r"input 'ids': the shapes of its profile do not grow"),
            (
                ("ids:1x8,mask:1x8", "ids:1x9,mask:1x99", "ids:8x64,mask:8x64"),
                r"input 'mask': the shapes of its profile do not grow",
            ),
            (("ids:2x8,mask:1x8", None, "ids:8x8,mask:8x8"), r"2 to 8 rows fit the profile, and batches have 1 to 8"),
            (("ids:1x8,mask:1x8", None, "ids:4x8,mask:8x8"), r"write max_batch_size: 4, or other shapes"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, said: tuple[str | None, str | None, str | None], message: str) -> None:
        with pytest.raises(LoadError, match=message):
            find_profile(options(*said), [IDS, MASK], 8, None)

    def test_a_fixed_dimension_stays(self) -> None:
        with pytest.raises(LoadError, match=r"225\] does not fit input 'image', which is \[-1, 3, 224, 224\]"):
            find_profile(options("image:1x3x224x225", None, "image:8x3x224x224"), [IMAGE], 8, None)
