"""Every template renders, for every variant and branch, to what Jinja's own sandbox makes of it."""

import pytest
from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.runtime import Context, missing
from jinja2.sandbox import SandboxedEnvironment

from fusedconv.devices import DEVICES
from fusedconv.evaluation import FUNCTIONS, div
from fusedconv.operator import Operator, builtin, shaders_folder

from .variant_cases import variant_cases


class ScopeContext(Context):
    """Names that the template does not set are asked of the engine's scope."""

    def resolve_or_missing(self, key):
        found = super().resolve_or_missing(key)
        scope = super().resolve_or_missing("the_scope")
        if found is missing and scope is not missing and scope.defines(key):
            return getattr(scope, key)
        return found


class Sandbox(SandboxedEnvironment):
    context_class = ScopeContext
    intercepted_binops = frozenset({"/"})

    def call_binop(self, context, operator, left, right):
        return div(left, right)  # the contract's: whole quotients stay whole


def jinja(folder):
    loader = FileSystemLoader([folder, folder.parent])
    environment = Sandbox(
        loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.globals.update(FUNCTIONS)
    return environment


@pytest.mark.parametrize(
    ("device", "dtype"), [("desktop", "float32"), ("apple", "float32"), ("apple", "float16")]
)
def test_the_same_wgsl_as_jinja(device, dtype):
    ours = builtin("fusedconv")
    environment = jinja(shaders_folder() / "fusedconv")
    compared = set()

    def compare(name):
        def render(scope):
            text = ours.templates[name](scope)
            assert text == environment.get_template(name).render(the_scope=scope)
            compared.add(name)
            return text

        return render

    twin = Operator(ours.manifest, ours.functions, {n: compare(n) for n in ours.templates})
    cases = variant_cases(ours, DEVICES[device], dtype, draws=1200)
    for listed in cases.values():
        for case in listed:
            request = twin.request(case.x, case.w, **case.arguments)
            twin.plan_request(request, DEVICES[device], True, case.tunables, case.variant)
    assert len(compared) >= 7


def test_every_variant_is_reached_by_some_case():
    operator = builtin("fusedconv")
    reached = set()
    for device, dtype in (("desktop", "float32"), ("apple", "float32"), ("apple", "float16")):
        cases = variant_cases(operator, DEVICES[device], dtype)
        reached |= {name for name, listed in cases.items() if listed}
    missing_ids = {v.id for v in operator.manifest.variants if not v.extension} - reached
    assert not missing_ids
