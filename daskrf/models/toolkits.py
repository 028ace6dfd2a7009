"""Refuse molecules if their RDKit counts fingerprints differently than the RDKit of a model."""

from __future__ import annotations

from collections.abc import Callable

from daskrf.errors import InputError
from daskrf.models.models import Model
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.toolkit import Toolkit
from daskrf.storage.stores.store import Store

_REDEFINED = ("torsion", "descriptors")  # counted differently before counts had digests


def toolkit_of(store: Store) -> Toolkit:
    """Return the RDKit that counted the fingerprints of a store, as far as the store records it."""
    counts, origin = store.provenance.get("counts", ""), store.provenance.get("rdkit", "")
    return Toolkit.from_state({"rdkit": store.spec.get("rdkit", origin), "counts": counts})


def check_toolkit(
    model: Model, store: Store | None = None, note: Callable[[str], object] = lambda text: None
) -> None:
    """Refuse molecules if their RDKit counts fingerprints differently than the one of the model.

    Parameters
    ----------
    model : Model
    store : Store, optional
        Where the molecules were counted; by default they are counted here.
    note : callable
        Called with a caution if it is not known how RDKit counted one of them.

    Raises
    ------
    InputError
    """
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    fitted = Toolkit.from_state(model.metadata.get("toolkit"))
    if not fitted.counts:
        by = f" by RDKit {fitted.rdkit}" if fitted.rdkit else ""
        note(
            f"this model was fitted{by} before models recorded how RDKit counts molecules; if RDKit has "
            "changed since, predictions may differ: fit it again to be sure"
        )
        return
    current = Toolkit.here(spec) if store is None else toolkit_of(store)
    differing = fitted.differing(current)
    where = "here" if store is None else f"that counted {store.path}"
    if differing:
        version = ".".join(
            str(int(number)) if number.isdecimal() else number for number in fitted.rdkit.split(".")
        )
        raise InputError(
            f"The model was fitted to molecules counted by RDKit {fitted.rdkit}, and RDKit {current.rdkit} "
            f"{where} counts {', '.join(differing)} differently: install rdkit=={version} there, or fit the "
            "model again."
        )
    changed = any(kind.family in _REDEFINED for kind in spec.kinds)
    if differing is None and (changed or current.rdkit != fitted.rdkit):
        note(
            f"{'the molecules here' if store is None else store.path} do not say how RDKit "
            f"{current.rdkit or '(of an unknown version)'} counted them, and the model is by RDKit "
            f"{fitted.rdkit}: make the store again to be sure"
        )
