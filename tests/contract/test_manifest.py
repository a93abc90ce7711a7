"""The manifest: it expands to the published contract; every mistake is told with its path."""

import copy
import hashlib
import json
import re
from pathlib import Path

import pytest

from fusedconv import ManifestError, load_operator
from fusedconv import manifest as manifest_module
from fusedconv.manifest import expand, parse
from fusedconv.operator import shaders_folder

PUBLISHED = Path(__file__).parents[3] / "shared" / "contract" / "manifest.json"
FACTS = json.loads((Path(__file__).parent / "published_facts.json").read_text())
OURS = json.loads((shaders_folder() / "fusedconv" / "manifest.json").read_text())

# Of the published manifest with its keys sorted, for where the file itself is not at hand.
DIGEST = "4ab57cc9ec40e94f92e076a5b795c15881260d60d779e59407febfea7843142f"


def test_the_expansion_has_the_published_digest():
    text = json.dumps(expand(OURS, extensions=False), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == DIGEST


def test_the_expansion_is_the_published_manifest():
    if not PUBLISHED.exists():
        pytest.skip("the published manifest is not at hand")
    assert expand(OURS, extensions=False) == json.loads(PUBLISHED.read_text())


def test_the_expansion_has_the_published_facts():
    def bound(binding):
        return binding if isinstance(binding, str) else binding["arg"]

    facts = {
        variant["id"]: [
            variant["priority"],
            [
                [p["shader"].removesuffix(".wgsl.jinja"), " ".join(map(bound, p["bindings"]))]
                for p in variant["passes"]
            ],
        ]
        for variant in expand(OURS, extensions=False)["variants"]
    }
    assert facts == FACTS
    assert list(facts) == list(FACTS)


def test_extensions_come_after_and_are_marked():
    variants = parse(OURS).variants
    assert [v.id for v in variants[: len(FACTS)]] == list(FACTS)
    assert all(v.extension == (i >= len(FACTS)) for i, v in enumerate(variants))


def test_both_forms_parse_to_the_same_and_survive_as_source():
    compact = parse(OURS, extensions=False)
    assert compact == parse(expand(OURS, extensions=False))
    names = {name: getattr(manifest_module, name) for name in manifest_module.__all__}
    assert eval(repr(compact), names) == compact


def test_a_parsed_binding_says_what_it_holds_and_how():
    bindings = {
        (spec.name, binding.name): (binding.arg, binding.scratch, binding.buffer)
        for variant in parse(OURS).variants
        if variant.id == "im2col_gemm_tiled"
        for spec in variant.passes
        for binding in spec.bindings
        if not binding.struct
    }
    assert bindings == {
        ("Conv.Im2col", "x"): ("x", None, "read-only-storage"),
        ("Conv.Im2col", "cols"): (None, "cols", "storage"),
        ("Conv.Im2colGemmTiled", "w"): ("w", None, "read-only-storage"),
        ("Conv.Im2colGemmTiled", "xm"): (None, "cols", "read-only-storage"),
        ("Conv.Im2colGemmTiled", "y"): ("y", None, "storage"),
    }


def test_a_manifest_in_the_published_form_comes_back_as_it_is():
    published = expand(OURS)
    assert expand(published) == published


MINIMAL = {
    "domain": "test",
    "name": "FusedConv",
    "sinceVersion": 1,
    "inputs": {"x": {"dtype": "T"}, "w": {"dtype": "T"}},
    "outputs": {"y": {"dtype": "T", "shape": "shapes.x"}},
    "attributes": {"group": {"default": 1}},
    "tunables": {"SIZE": {"default": 64}},
    "derive": {"count": "numel(shapes.x)", "half": "count / 2"},
    "bindings": {
        "x": {"elementType": "$T"},
        "y": {"elementType": "$T"},
        "params": {"struct": [{"name": "n", "type": "u32", "value": "count"}]},
    },
    "variants": [
        {
            "id": "only",
            "priority": 1,
            "when": ["count > 0"],
            "requires": {},
            "intermediates": [{"id": "s", "dtype": "float32", "shape": "[count]"}],
            "passes": [
                {
                    "id": "main",
                    "shader": "a.wgsl.jinja",
                    "bindings": ["x", "y", "params"],
                    "dispatch": {"x": "ceilDiv(count, tunables.SIZE)", "y": 1, "z": 1},
                }
            ],
        }
    ],
}


def load(manifest):
    return load_operator(manifest, {"a.wgsl.jinja": "{{ declarations }}{{ count }}"})


def changed(place, value):
    """The minimal manifest with another value at `place`, as in `variants[0].when[0]`."""
    manifest = copy.deepcopy(MINIMAL)
    holder = manifest
    *keys, last = [int(key) if key.isdigit() else key for key in re.findall(r"\w+", place)]
    for key in keys:
        holder = holder[key]
    holder[last] = value
    return manifest


def refusal(manifest):
    with pytest.raises(ManifestError) as caught:
        load(manifest)
    path, message = caught.value.path, caught.value.message
    return path.replace("variants[0] (only)", "variants[0]"), message


def test_the_minimal_manifest_is_right():
    assert load(MINIMAL)


def test_a_path_names_the_variant():
    with pytest.raises(ManifestError) as caught:
        load(changed("variants[0].passes[0].bindings[2]", "q"))
    assert caught.value.path == "variants[0] (only).passes[0].bindings[2]"


# Where in the manifest, what stands there, where below that the error is, what it says.
@pytest.mark.parametrize(
    ("place", "value", "below", "message"),
    [
        ("extra", 1, "", "unknown key; known: domain, name"),
        ("name", 7, "", "must be a text"),
        ("derive", [], "", "must be an object, got a list"),
        ("derive.half", "nothing / 2", "", "'nothing' is not defined"),
        ("derive.half", "tunables.SIZES", "", "did you mean 'tunables.SIZE'"),
        ("derive.half", "attrs.groups", "", "did you mean 'attrs.group'"),
        ("derive.half", "shapes.bias", "", "'shapes.bias' is not defined"),
        ("derive.half", "half", "", "depends on itself: half > half"),
        ("derive.count", "half * 2", "", "depends on itself: count > half > count"),
        ("derive.half", "count +", "", "unexpected"),
        ("derive.half", "count.__class__", "", "not allowed"),
        ("derive.half", None, "", "an expression"),
        ("derive.half", float("nan"), "", "finite"),
        ("derive.half", "9" * 5000, "", "4300"),
        ("derive.half", "-" * 300 + "1", "", "nested too deeply"),
        ("derive.limits", "1", "", "cannot be the name"),
        ("derive.__class__", "1", "", "cannot be the name"),
        ("inputs.x", {}, "", "'dtype' is missing"),
        ("inputs.x", {"dtyp": "T"}, ".dtyp", "unknown key; known: onnx, dtype"),
        ("inputs.x", {"dtype": "T", "rank": "gone"}, ".rank", "'gone'"),
        ("outputs.y.dtype", "U", "", "unknown type; known: T"),
        ("outputs.y.shape", "count + 1", "", "must be a list"),
        ("outputs", {}, "", "one output"),
        ("attributes.group", 1, "", "an object"),
        ("attributeConstraints", {"grup": {"values": []}}, ".grup", "no attribute"),
        ("typeConstraints", {"T": ["float64"]}, ".T", "unknown type 'float64'"),
        ("tunables.SIZE", {}, "", "number"),
        ("variants[0].whem", [], "", "unknown key; known: id"),
        ("variants[0].priority", "1", "", "whole number"),
        ("variants[0].priority", False, "", "whole number"),
        ("variants[0].when[0]", "gone", "", "'gone'"),
        ("variants[0].when[0]", 1, "", "must be a text"),
        ("variants[0].when[0]", "1", "", "true or false, '1' is a number"),
        ("variants[0].when[0]", "count + 1", "", "is a number"),
        ("variants[0].when[0]", "ceil(count)", "", "is a number"),
        ("variants[0].when[0]", "1 if count > 1 else 2", "", "is a number"),
        ("variants[0].demoteWhen", ['"no"'], "[0]", "is a text"),
        ("variants[0].supersededBy", ["x"], "", "no variant 'x'"),
        ("variants[0].supersededBy", ["only"], "", "itself"),
        ("variants[0].derive", {"a": "b", "b": "a"}, ".a", "a > b > a"),
        ("variants[0].derive", {"own": "own"}, ".own", "not defined"),
        ("variants[0].tunables", {"A": {}}, ".A", "number"),
        ("variants[0].requires", {"feature": []}, ".feature", "unknown"),
        ("variants[0].requires", {"features": [1]}, ".features[0]", "a text"),
        ("variants[0].requires.subgroupMatrixConfigs", [{}], "[0]", "nothing"),
        ("variants[0].requires.subgroupMatrixConfigs", [{"M": 0}], "[0].M", "positive"),
        ("variants[0].intermediates[0].dtype", "f64", "", "float32"),
        ("variants[0].intermediates[0].shape", "count * 2", "", "a list"),
        ("variants[0].passes", [], "", "needs a pass"),
        ("variants[0].passes[0].shader", "b.wgsl.jinja", "", "no template 'b.wgsl.jinja'"),
        ("variants[0].passes[0].shader", "../a.wgsl.jinja", "", "operator's folder"),
        ("variants[0].passes[0].shader", "/etc/hosts", "", "operator's folder"),
        ("variants[0].passes[0].dispatch", {"x": 1, "y": 1}, "", "'z' is missing"),
        ("variants[0].passes[0].dispatch.x", 0.5, "", "whole number"),
        ("variants[0].passes[0].dispatch.x", "0.5", "", "whole, '0.5' is a fraction"),
        ("variants[0].passes[0].dispatch.x", -1, "", "negative"),
        ("variants[0].passes[0].dispatch.x", "count > 1", "", "is a boolean"),
        ("variants[0].passes[0].bindings", ["x"], "", "none is written to"),
        ("variants[0].passes[0].bindings", ["x", "x", "y"], "[1]", "there twice"),
        ("variants[0].passes[0].bindings[2]", "q", "", "no binding 'q'"),
    ],
)
def test_a_mistake_is_told_with_its_path(place, value, below, message):
    path, said = refusal(changed(place, value))
    assert (path, message in said) == (place + below, True)


@pytest.mark.parametrize(
    ("binding", "below", "message"),
    [
        ({"arg": "q"}, "", "'q' is bound to nothing; known: s, w, x, y"),
        ({"scratch": "q"}, ".scratch", "no intermediate 'q'"),
        ({"arg": "x", "scratch": "s"}, "", "not both"),
        ({"elementType": "f32"}, "", "needs a name"),
        ({"arg": "x", "elementType": "f64"}, ".elementType", "vec"),
        ({"arg": "x", "elementType": "vec4<f32"}, ".elementType", "vec"),
        ({"arg": "x", "elementType": ""}, ".elementType", "vec"),
        ({"arg": "x", "elementType": "$q"}, ".elementType", "'q' is not defined"),
        ({"arg": "x", "buffer": "uniform"}, ".buffer", "storage"),
        ({"arg": "x", "buffer": "storage"}, ".buffer", "not written to"),
        ({"arg": "x", "sized": True}, ".sized", "only scratch"),
        ({"arg": "y", "name": "z"}, "", "bound twice"),
        ({"arg": "x", "name": "a-b"}, "", "no name in WGSL"),
    ],
)
def test_a_wrong_binding_is_told_with_its_path(binding, below, message):
    place = "variants[0].passes[0].bindings[0]"
    path, said = refusal(changed(place, {"elementType": "f32", **binding}))
    assert (path, message in said) == (place + below, True)


@pytest.mark.parametrize(
    ("place", "value", "below", "message"),
    [
        ("struct[0].type", "u64", "", "u32"),
        ("struct[0].value", 1.5, "", "whole"),
        ("struct[0].value", '"a"', "", "is a text"),
        ("struct[0].value", "count > 1", "", "is a boolean"),
        ("struct[0].value", -1, "", "negative"),
        ("struct", [], "", "needs a member"),
        ("arg", "x", "", "does not go with"),
    ],
)
def test_a_wrong_uniform_is_told_with_its_path(place, value, below, message):
    path, said = refusal(changed(f"bindings.params.{place}", value))
    assert (path, message in said) == (f"variants[0].passes[0].bindings[2].{place}{below}", True)


def test_the_output_may_not_depend_on_itself():
    manifest = changed("outputs.y.shape", "[count]")
    manifest["derive"]["count"] = "numel(shapes.y)"
    path, message = refusal(manifest)
    assert path == "outputs.y.shape"
    assert message == "depends on itself: outputs.y.shape > count > outputs.y.shape"


def test_what_is_computed_once_is_written_once():
    manifest = changed("variants[0].passes[0].bindings[1]", "s")
    manifest["bindings"]["s"] = {"elementType": "f32"}
    path, message = refusal({**manifest, "variants": [once(manifest["variants"][0], "passes")]})
    assert (path, "'once' differs" in message) == ("variants[0].passes[0].bindings[1]", True)
    both = once(once(manifest["variants"][0], "passes"), "intermediates")
    assert load({**manifest, "variants": [both]}).manifest.variants[0].passes[0].once


def once(variant, key):
    return {**variant, key: [{**item, "once": True} for item in variant[key]]}


def test_two_variants_of_one_id_are_refused():
    manifest = copy.deepcopy(MINIMAL)
    manifest["variants"] *= 2
    with pytest.raises(ManifestError, match="another variant"):
        parse(manifest)


def test_a_value_may_be_handed_on_from_the_enclosing_scope():
    manifest = copy.deepcopy(MINIMAL)
    manifest["variants"][0]["derive"] = {"half": "half", "own": "half + count"}
    manifest["variants"][0]["passes"][0]["derive"] = {"own": "own"}
    assert parse(manifest).variants[0].derive["half"] == "half"


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("derive", {"count": "1"}, "extensions.derive.count"),
        ("bindings", {"x": {"elementType": "f16"}}, "extensions.bindings.x"),
        ("tunables", {"SIZE": {"default": 1}}, "extensions.tunables.SIZE"),
        ("outputs", {}, "extensions.outputs"),
        ("shared", [], "extensions.shared"),
        ("families", [{"cases": [1]}], "extensions.families[0].cases[0]"),
    ],
)
def test_extensions_may_not_change_the_contract(key, value, path):
    with pytest.raises(ManifestError) as caught:
        expand({**MINIMAL, "extensions": {key: value}})
    assert caught.value.path == path
    assert expand({**MINIMAL, "extensions": {key: value}}, extensions=False) == MINIMAL


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (3, "must be an object"),
        ({"cases": 3}, "must be a list"),
        ({"cases": [3]}, "must be an object"),
        ({"cases": [{"id": "a", "priority": 1}], "defaults": 3}, "must be an object"),
        ({"cases": [{"id": "a", "priority": 1}], "derive": {"@": 3}}, "must be a list"),
        ({"cases": [{"id": "a", "priority": 1}], "derive": {"@": ["loop"]}}, "without end"),
        ({"cases": [{"id": "a", "priority": 1}], "derive": {"@": ["bomb20"]}}, "must be an object"),
        ({"cases": [{"id": "a", "priority": 1}], "when": [{"if": []}]}, "an 'if' and a 'use'"),
        ({"cases": [{"id": "a", "priority": 1, "p": []}], "when": ["x${p}"]}, "inside a text"),
        ({"cases": [{"id": "a", "priority": 1}] * 999, "when": "@long"}, "without end"),
        ({"when": []}, "cases"),
        ({"cases": [{"id": "a"}]}, "priority"),
        ({"cases": [{"id": "a", "priority": 1}], "when": ["${gone}"]}, "parameter 'gone'"),
        ({"cases": [{"id": "a", "priority": 1}], "when": "@gone"}, "shared part 'gone'"),
        ({"cases": [{"id": "a", "priority": 1}], "when": "@loop"}, "without end"),
        ({"cases": [{"id": "a", "priority": 1}], "when": "@bomb0"}, "without end"),
    ],
)
def test_a_family_that_cannot_expand_is_refused(family, message):
    bombs = {f"bomb{i}": [f"@bomb{i + 1}"] * 9 for i in range(20)}
    shared = {"loop": ["@loop"], **bombs, "bomb20": ["x"], "long": ["x" * 5000]}
    with pytest.raises(ManifestError, match=message):
        expand({**MINIMAL, "shared": shared, "families": [family]})


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ManifestError, match="cannot be read"):
        load_operator(tmp_path / "gone.json")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ManifestError, match="not JSON"):
        load_operator(tmp_path)
    with pytest.raises(ManifestError, match="browser only"):
        load_operator("https://example.org/fusedconv/manifest.json")
