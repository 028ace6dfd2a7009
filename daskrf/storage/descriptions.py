"""What is stored, in words: fingerprints, feature maps, kernels and models, from their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from daskrf.errors import InputError
from daskrf.molecules.counts.spec import FingerprintSpec, FingerprintState, KindState
from daskrf.quantities import POSITIONS, amount
from daskrf.storage.integrity import DAMAGE
from daskrf.storage.model import check_numbers
from daskrf.storage.modelmetadata import ModelMetadata, RoundRecord
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.values import scales_in

if TYPE_CHECKING:  # they take long to import
    from daskrf.features.featuremap import MapState
    from daskrf.gp.processes.coregionalized import CoregionalizedState
    from daskrf.gp.processes.exact import ExactState
    from daskrf.gp.processes.separate import SeparateState
    from daskrf.kernels.kernel import KernelState

_ROUNDS = 12  # rounds of a model that are shown at most
_FINGERPRINTS = {
    "morgan": "Morgan (circular)",
    "atompair": "atom-pair",
    "torsion": "topological-torsion",
    "rdkit": "RDKit path",
    "substituents": "substituent",
    "positions": "position",
    "lingo": "LINGO (windows of four characters of SMILES)",
}


def words_of_model(metadata: ModelMetadata) -> list[str]:
    """Describe the content of a model by its metadata."""
    words = []
    check_numbers(metadata.get("gp", {}))
    if (feature_map := metadata.get("map")) is not None:
        words.append(map_words(feature_map))
    if (model := model_words(metadata.get("gp", {}))) is not None:
        words.append(model)
    if metadata.get("targets"):
        directions = dict(metadata.get("directions", {}))
        targets = (f"{t} ({directions[t]})" if t in directions else str(t) for t in metadata["targets"])
        words.append(f"targets: {', '.join(targets)}")
    words += [scale.words() for scale in scales_in(metadata) if scale.worth_stating]
    words += _class_words(metadata)
    toolkit = metadata.get("toolkit")
    counted = toolkit.get("rdkit") if isinstance(toolkit, dict) else ""
    words.append(f"molecules counted by RDKit {counted or 'of an unknown version'}")
    if isinstance(metadata.get("labels"), dict):
        counted_labels = {
            key: value for key, value in metadata["labels"].items() if value or key == "matched"
        }
        counts = (f"{value:,} {key.replace('_', ' ')}" for key, value in counted_labels.items())
        words.append(f"labels: {', '.join(counts)}")
    words += _round_words(metadata.get("rounds", []), metadata.get("targets", []))
    if metadata.get("spec_hash"):
        words.append(f"hash: {metadata['spec_hash'][:12]}")
    return words + _choice_words(metadata.get("choices") or [], metadata.get("targets") or [])


def _class_words(metadata: ModelMetadata) -> list[str]:
    """Describe the targets that are two classes, in one line each."""
    words = []
    for name, state in zip(metadata.get("targets") or [], metadata.get("classes") or [], strict=False):
        if state is not None:
            share = state["n_positive"] / state["n_labels"]
            without = "" if state["link"] else ", without probabilities"
            words.append(f"{name}: {ClassWords.from_state(state).words()}, {share:.1%} are 1{without}")
    return words


def _choice_words(choices: Sequence[str | None], targets: Sequence[str]) -> list[str]:
    """Return one line per target of an exact process, with the kernels that were compared for it."""
    lines: list[str] = []
    for choice, target in zip(choices, targets, strict=False):
        if choice:
            head, *rest = choice.splitlines()
            lines += [f"{target}: {head}" if len(choices) > 1 else head, *rest]
    return lines


def _round_words(rounds: list[RoundRecord], targets: list[str]) -> list[str]:
    """Describe the last rounds of labels in one line each; `daskrf add` adds rounds."""
    words = []
    for number, each in list(enumerate(rounds, 1))[-_ROUNDS:]:
        parts = [f"round {number}: {each['labels']:,} labels" + (" (fit)" if number == 1 else "")]
        agreements = each.get("agreement") or [None] * len(targets)
        for name, best, agreement in zip(targets, each["best"], agreements, strict=False):
            notes = [f"best so far {best:.6g}"] if best is not None else []
            if agreement is not None:
                notes.append(
                    f"{agreement['within_95']:.0%} within 95 % intervals, mean z^2 {agreement['mean_z2']:.2f}"
                )
            parts += [f"{name} {text}" if len(targets) > 1 else text for text in notes]
        words.append(", ".join(parts))
    return words


def fingerprint_words(state: KindState) -> str:
    """Describe a fingerprint specification of one kind in words.

    Examples
    --------
    >>> fingerprint_words({"kind": "morgan", "radius": 1, "counts": True, "size": 0})
    'Morgan (circular) fingerprints of radius 1, counts, unfolded (32-bit identifiers)'
    >>> fingerprint_words({"kind": "atompair:4", "counts": True, "size": 512})
    'atom-pair fingerprints up to 4 bonds apart, counts, folded to 512 columns'
    >>> fingerprint_words({"kind": "positions:00000010-00000012", "counts": True, "size": 512})
    'position fingerprints about the bonds to 2 building blocks, counts, folded to 512 columns'
    """
    kind, _, option = str(state.get("kind", "unknown")).partition(":")
    words = f"{_FINGERPRINTS.get(kind, kind)} fingerprints"
    if kind == POSITIONS:
        words += f" about the bonds to {amount(len(option.split('-')), 'building blocks')}"
    elif option.isdecimal():
        words += f" up to {amount(int(option), 'bonds')} apart"
    if kind == "morgan":
        words += f" of radius {state.get('radius')}"
    words += _options_words(state)
    words += ", pharmacophoric atom classes" if state.get("features") else ""
    start, stop = state.get("columns", (0, 0))
    return words + (f", columns {start:,} to {stop - 1:,}" if stop else "")


def kinds_words(state: FingerprintState) -> str:
    """Name the kinds of a specification, in the syntax of --kind, and the options that they share.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> kinds_words(FingerprintSpec(["morgan:2", "torsion"], size=512).state())
    'morgan:2 + torsion, counts, folded to 512 columns'
    """
    return FingerprintSpec.from_state(state).name + _options_words(kinds_of(state)[0])


def _options_words(state: KindState) -> str:
    """Describe the options that are the same for all kinds."""
    words = ", counts" if state.get("counts") else ", presence only"
    size = state.get("size")
    words += f", folded to {size:,} columns" if size else ", unfolded (32-bit identifiers)"
    return words + (", with chirality" if state.get("chirality") else "")


def kinds_of(state: FingerprintState) -> list[KindState]:
    """Return the specification of each kind of fingerprint in a combined specification.

    Examples
    --------
    >>> kinds_of({"kind": "torsion"})
    [{'kind': 'torsion'}]
    """
    return state.get("kinds") or [state]


def _kernel_words(state: KernelState) -> str:
    from daskrf.kernels.kernel import from_state, short  # slow, and not needed for stores

    try:
        return from_state(state).words()
    except (InputError, *DAMAGE):
        return f"an unknown kernel ({short(state)})"


def map_words(state: MapState, dtype: str | None = None) -> str:
    """Describe the state of a feature map in words.

    Parameters
    ----------
    state : dict
        ``FeatureMap.state()``.
    dtype : str, optional
        Type of the stored features; if given, the bytes per molecule are added.

    Returns
    -------
    str

    Examples
    --------
    >>> from daskrf.features import default_map
    >>> state = default_map().set_params(n_components=64).state()
    >>> map_words(state)
    'one-bit Tanimoto (min-max) features, M = 64, seed 0: unbiased, variance (1 - T^2)/M'
    >>> map_words(state, "bits").split(", ")[-1]
    '8 bytes a molecule'
    """
    from daskrf.features.featuremap import feature_bytes, from_state, parameter_words  # slow
    from daskrf.kernels.kernel import short

    try:
        try:
            words = from_state(state).words()
        except InputError:  # a map unknown to this version
            words = parameter_words(str(state.get("class", "unknown")), state.get("parameters", {}))
        n = state.get("parameters", {}).get("n_components")
        if dtype is None or not isinstance(n, int):
            return words
        return f"{words}, {feature_bytes(n, dtype):,} bytes a molecule"
    except DAMAGE:  # a store not written by daskrf
        return f"an unknown feature map ({short(state)})"


def model_words(state: Mapping[str, object]) -> str | None:
    """Describe the model-specific options in a model's state in words; return None if it has none.

    Examples
    --------
    >>> model_words({"class": "LocalGaussianGP", "rows": "nearest", "residual": True})
    'a posterior about each centroid (LocalGaussianGP): rows nearest, residual'
    >>> model_words({"class": "SparseGP", "criterion": "bound"})
    'a sparse Gaussian process (SparseGP): criterion bound'
    >>> model_words({"class": "SeparateGP", "parts": [{"class": "RandomFeatureGP"}] * 2})
    '2 models in one, of targets that have gaps (SeparateGP)'
    """
    if state.get("class") == "LocalGaussianGP":
        residual = "residual" if state.get("residual") else "no residual"
        return f"a posterior about each centroid (LocalGaussianGP): rows {state.get('rows')}, {residual}"
    if state.get("class") == "SparseGP":
        return f"a sparse Gaussian process (SparseGP): criterion {state.get('criterion')}"
    if state.get("class") == "ExactGP":
        return f"an exact Gaussian process with {_kernel_words(cast('ExactState', state).get('kernel', {}))}"
    if state.get("class") == "CoregionalizedGP":
        several = cast("CoregionalizedState", state)
        inner = several.get("joint", {}).get("kernel", {}).get("parameters", {}).get("inner", {})
        kernel, n = cast("KernelState", inner), len(several.get("mean", ()))
        return f"an exact Gaussian process of {n} targets that correlate, with {_kernel_words(kernel)}"
    if state.get("class") == "SeparateGP":
        parts = cast("SeparateState", state).get("parts") or [{}]
        kind = model_words(parts[0])
        each = f", each {kind}" if kind else ""
        if parts[0].get("class") == "ExactGP":
            return f"{len(parts)} models in one, of a target each (SeparateGP){each}"
        return f"{len(parts)} models in one, of targets that have gaps (SeparateGP){each}"
    return None
