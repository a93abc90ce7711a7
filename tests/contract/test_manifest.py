"""The manifest: its expansion is the published contract, and every mistake is told with its path."""

import copy
import json
from pathlib import Path

import pytest
from fusedconv import ManifestError, load_operator
from fusedconv.manifest import expand, parse
from fusedconv.operator import shaders_folder

PUBLISHED = Path(__file__).parents[3] / "shared" / "contract" / "manifest.json"
FACTS = json.loads((Path(__file__).parent / "published_facts.json").read_text())
OURS = json.loads((shaders_folder() / "fusedconv" / "manifest.json").read_text())


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
VARIANT = "variants[0] (only)"
PASS = f"{VARIANT}.passes[0]"


def test_the_minimal_manifest_is_right():
    assert load_operator(MINIMAL, {"a.wgsl.jinja": "{{ declarations }}{{ count }}"})


@pytest.mark.parametrize(
    ("keys", "value", "path", "message"),
    [
        (("derive", "half"), "nothing / 2", "derive.half", "'nothing' is not defined"),
        (("derive", "count"), "half * 2", "derive.count", "depends on itself: count > half"),
        (("derive", "half"), "count +", "derive.half", "unexpected"),
        (("derive", "half"), "count.__class__", "derive.half", "not allowed"),
        (("derive", "half"), None, "derive.half", "an expression"),
        (("derive",), [], "manifest.derive", "must be an object, got a list"),
        (("extra",), 1, "manifest.extra", "unknown key"),
        (("name",), 7, "manifest.name", "must be a text"),
        (("tunables", "SIZE"), {}, "tunables.SIZE", "number"),
        (("variants", 0, "when", 0), "count + 1", f"{VARIANT}.when[0]", "true or false"),
        (("variants", 0, "when", 0), "gone", f"{VARIANT}.when[0]", "'gone'"),
        (("variants", 0, "when", 0), 1, f"{VARIANT}.when[0]", "must be a text"),
        (("variants", 0, "priority"), "1", f"{VARIANT}.priority", "whole number"),
        (("variants", 0, "supersededBy"), ["x"], f"{VARIANT}.supersededBy", "no variant 'x'"),
        (("variants", 0, "requires"), {"feature": []}, f"{VARIANT}.requires.feature", "unknown"),
        (("variants", 0, "whem"), [], f"{VARIANT}.whem", "unknown key; known: id"),
        (("variants", 0, "intermediates", 0, "dtype"), "f64", f"{VARIANT}.intermediates[0].dtype", "float32"),
        (("variants", 0, "passes", 0, "bindings", 2), "q", f"{PASS}.bindings[2]", "no binding 'q'"),
        (("variants", 0, "passes", 0, "bindings", 0), {"arg": "q", "elementType": "f32"}, f"{PASS}.bindings[0]", "bound to nothing"),
        (("variants", 0, "passes", 0, "bindings", 0), {"scratch": "q", "elementType": "f32"}, f"{PASS}.bindings[0].scratch", "no intermediate"),
        (("variants", 0, "passes", 0, "bindings", 0), {"arg": "x", "elementType": "f64"}, f"{PASS}.bindings[0].elementType", "vec"),
        (("variants", 0, "passes", 0, "bindings", 0), {"arg": "x", "elementType": "$q"}, f"{PASS}.bindings[0].elementType", "'q'"),
        (("variants", 0, "passes", 0, "bindings", 0), {"arg": "x", "elementType": "f32", "buffer": "uniform"}, f"{PASS}.bindings[0].buffer", "storage"),
        (("bindings", "params", "struct", 0, "type"), "u64", f"{PASS}.bindings[2].struct[0].type", "u32"),
        (("bindings", "params", "struct", 0, "value"), 1.5, f"{PASS}.bindings[2].struct[0].value", "whole"),
        (("bindings", "params", "struct", 0, "value"), '"a"', f"{PASS}.bindings[2].struct[0].value", "whole"),
        (("variants", 0, "passes", 0, "dispatch"), {"x": 1, "y": 1}, f"{PASS}.dispatch", "'z'"),
        (("variants", 0, "passes", 0, "dispatch", "x"), 0.5, f"{PASS}.dispatch.x", "whole number"),
        (("variants", 0, "passes", 0, "shader"), "b.wgsl.jinja", f"{PASS}.shader", "no template 'b.wgsl.jinja'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_path(keys, value, path, message):
    manifest = copy.deepcopy(MINIMAL)
    place = manifest
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(ManifestError) as caught:
        load_operator(manifest, {"a.wgsl.jinja": "{{ declarations }}{{ count }}"})
    assert caught.value.path == path
    assert message in caught.value.message


def test_two_variants_of_one_id_are_refused():
    manifest = copy.deepcopy(MINIMAL)
    manifest["variants"] *= 2
    with pytest.raises(ManifestError, match="another variant"):
        parse(manifest)


@pytest.mark.parametrize(
    ("family", "message"),
    [
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
    shared = {"loop": ["@loop"], **bombs, "bomb20": ["x"]}
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
