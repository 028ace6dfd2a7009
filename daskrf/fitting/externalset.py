"""Molecules that a model was not fitted to, with labels: an external set to judge the model by."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from daskrf.arrays import Matrix, column_slice
from daskrf.errors import InputError, printable
from daskrf.files.backend import as_path
from daskrf.fitting.heldout import HeldOutFit
from daskrf.fitting.newlabels import LabelReader, NewLabels
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.sums.folds import Folds, equal_rows, random_folds
from daskrf.gp.sums.shapes import SumsShape
from daskrf.gp.validation.agreement import impossible
from daskrf.jobs.job import Run
from daskrf.jobs.memory import Making, MemoryNeed
from daskrf.measurements import Labels, read_column
from daskrf.models.everylabel import EveryLabel
from daskrf.models.intervals import residuals_of
from daskrf.models.labelled import labelled_smiles
from daskrf.models.models import Model, feature_map_of, need_of_model
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.structures import KnownStructures, level_of
from daskrf.quantities import amount

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_PARTS, _LEAST_IN_PART = 5, 10
_MOST_TRAINING = 1_000_000  # labels of a model whose molecules are compared; this takes some minutes


@dataclass(frozen=True)
class ExternalTarget:
    """The labels of one target of an external set.

    Attributes
    ----------
    target : int
        Number of the target in the model.
    rows : int array, shape (n,)
        Which molecules of the set are judged: they have a label, and the model has none of theirs.
    y : float64 array, shape (n,)
        Their labels; NaN for limits.
    training : float64 array, shape (n_training,)
        The measured labels that the model was fitted to.
    n_trained : int
        Labels left out since the model was fitted to labels of the same molecules.
    bound, side : arrays, shape (n,), or None
        Limits, NaN for values, and 1 for lower and -1 for upper ones, 0 for values; None without limits.
    """

    target: int
    rows: Rows
    y: Array
    training: Array
    n_trained: int
    bound: Array | None = None
    side: npt.NDArray[np.int8] | None = None


class Fingerprinted(NamedTuple):
    """Fingerprints of some labels, or None if their molecules are not known, and which labels these are."""

    X: sp.csr_matrix
    numbers: Rows


class Neighbours(NamedTuple):
    """Fingerprints and labels of a model, and the fingerprints to compare them with.

    `X` and `X_test` are None if the molecules of the model are not known.
    """

    X: sp.csr_matrix
    y: Array
    X_test: sp.csr_matrix | None


@dataclass
class ExternalSet:
    """Labelled molecules, read and predicted as a model does it.

    Attributes
    ----------
    model : Model
    reader : LabelReader
    labels : NewLabels
        Set by `read`.
    """

    model: Model
    reader: LabelReader
    labels: NewLabels = field(init=False)

    def read(self, run: Run) -> None:
        """Read the labels, and find those of molecules that the model was fitted to.

        Raises
        ------
        InputError
            If labels cannot be read, or the model was fitted to all of the molecules.
        """
        self.labels = self.reader.read(run)
        measured = [np.isfinite(each.y).any() for each in self.targets if len(each.rows)]
        if measured and not all(measured):
            raise InputError(
                f"All labels of a target of {self.reader.labels} are limits, which give no error of "
                "predictions; give some measured values, too."
            )
        if not measured:
            raise InputError(
                f"The model was fitted to all {amount(len(self.labels.y), 'labelled molecules')} of "
                f"{self.reader.labels}, which do not show how it predicts others; give molecules that it has "
                "not seen."
            )

    @cached_property
    def _training(self) -> tuple[list[str], str]:
        """The SMILES of the labels of the model, and why some are empty or there are none."""
        (y,) = self.model.arrays("labels")
        if len(y) > _MOST_TRAINING:
            return [], f"{len(y):,} are too many to compare by structure"
        return labelled_smiles(self.model)

    @cached_property
    def targets(self) -> list[ExternalTarget]:
        """Each target that the set has labels of."""
        smiles, _ = self._training
        (y,) = self.model.arrays("labels")
        level = level_of(self.model.metadata.get("repeats", ["all", "structure"])[1])
        seen: dict[bytes, npt.NDArray[np.bool_]] = {}
        targets = []
        for t in self.reader.target_indices:
            there, limits = np.isfinite(y[:, t]), self.model.limits_of(t)
            measured = there
            if limits is not None:
                there = there | (limits[1] != 0)
            if self._together:  # labels of other targets say something of this one, too
                there = np.isfinite(y).any(axis=1)
            if (mask := there.tobytes()) not in seen:
                texts = [text for text, has in zip(smiles, there.tolist(), strict=False) if has and text]
                molecules = KnownStructures.of(dict.fromkeys(texts), level)
                seen[mask] = np.array(molecules.among(self.labels.smiles), bool)
            labelled = self.labels.has_label[:, t]
            rows = np.flatnonzero(labelled & ~seen[mask])
            n_trained = int((labelled & seen[mask]).sum())
            bound, side = self.labels.limits_of(t, rows)
            training = y[measured, t]
            targets.append(
                ExternalTarget(t, rows, self.labels.y[rows, t], training, n_trained, bound=bound, side=side)
            )
        return targets

    @property
    def _together(self) -> bool:
        """Whether the targets of the model learn from each other's labels."""
        return isinstance(self.model.gp, CoregionalizedGP)

    @cached_property
    def rows(self) -> Rows:
        """The molecules that are judged by a target or several, in order."""
        return np.unique(np.concatenate([each.rows for each in self.targets]))

    def cautions(self) -> list[str]:
        """Return what molecules the figures are for, and what may make them look too good."""
        smiles, reason = self._training
        unseen = (
            "its targets are modelled together, so molecules with a label of any of them are left out: the "
            "figures are for molecules that have none, and others are predicted better"
        )
        cautions = [unseen] if self._together else []
        if not reason:
            return cautions
        some = "some molecules" if smiles else "molecules"
        return [
            *cautions,
            f"{some} that the model was fitted to could not be left out, because {reason}: if the set holds "
            "any, the figures are too good",
        ]

    def need(self) -> MemoryNeed:
        """Return the memory that predictions take."""
        feature_map, nonzeros = feature_map_of(self.model), self.labels.X.nnz
        if feature_map is None:
            making = Making(1, len(self.labels.y), True, nonzeros=nonzeros)
        else:
            making = Making(
                feature_map.n_components,
                len(self.labels.y),
                process_of(self.model.gp, 0)[0].one_bit_,
                SumsShape.of(feature_map),
                nonzeros,
            )
        return need_of_model(self.model, making, 0, std=True)

    def predicted(self, each: ExternalTarget) -> HeldOutFit:
        """Return the predictions of the labels of a target, noise included."""
        process, column = process_of(self.model.gp, each.target)
        if isinstance(process, FeatureSpaceGP):
            feature_map = feature_map_of(self.model)
            assert feature_map is not None
            process.feature_map_, kernel = feature_map, feature_map.kernel_
        else:
            assert process.kernel is not None
            kernel = process.kernel
        residuals, link = residuals_of(self.model)[each.target], self.model.link_of(each.target)
        X = self.labels.X[each.rows]
        return HeldOutFit.of(process, X, kernel, column, residuals=residuals, link=link)

    def impossible(self, each: ExternalTarget, fit: HeldOutFit) -> list[str]:
        """Return a caution if labels cannot be values of the quantity that the model predicts."""
        measured = np.flatnonzero(np.isfinite(each.y))
        y, mean, std = (values[measured] for values in (each.y, fit.mean, fit.std))
        wrong = measured[impossible(y, mean, std, each.training)]
        if not len(wrong):
            return []
        first, low, high = wrong[0], each.training.min(), each.training.max()
        text = printable(self.labels.smiles[each.rows[first]], 60)
        return [
            f"{amount(len(wrong), 'labels')} cannot be values of the quantity that the model predicts, such "
            f"as {each.y[first]:.6g} of {text}, predicted {fit.mean[first]:.4g} +- {fit.std[first]:.2g}; the "
            f"labels of the model are from {low:.6g} to {high:.6g}: look at unit, sign and column (--target)"
        ]

    @cached_property
    def _fingerprinted(self) -> Fingerprinted:
        """The fingerprints of the labels of the model."""
        smiles, _ = self._training
        numbers = np.flatnonzero([bool(text) for text in smiles])
        if not len(numbers):
            return Fingerprinted(None, numbers)
        spec = FingerprintSpec.from_state(self.model.metadata["fingerprint"])
        block = Fingerprinter(spec, self.model.metadata["fragments"])([smiles[i] for i in numbers.tolist()])
        return Fingerprinted(self._structures(block.fingerprints), numbers[block.kept])

    def _structures(self, X: Matrix) -> object:
        """Return fingerprints without descriptors, which say nothing of similarity."""
        n_columns = FingerprintSpec.from_state(self.model.metadata["fingerprint"]).n_structural
        return X if n_columns is None else column_slice(X, 0, n_columns)

    def neighbours(self, each: ExternalTarget) -> Neighbours:
        """Return what the nearest neighbours of a target's molecules are looked up in."""
        labelled = self._fingerprinted
        (y,) = self.model.arrays("labels")
        values = y[labelled.numbers, each.target]
        there = np.flatnonzero(np.isfinite(values))
        if labelled.X is None or not len(there):
            return Neighbours(None, values[there], None)
        return Neighbours(labelled.X[there], values[there], self._structures(self.labels.X[each.rows]))

    def parts(self, each: ExternalTarget, seed: int, *, classes: bool) -> Folds | None:
        """Return random parts of the labels, copies together; None if there are too few labels."""
        groups = equal_rows(self.labels.X[each.rows])
        n_groups = int(groups.max()) + 1
        n_parts = min(_PARTS, n_groups // _LEAST_IN_PART)
        if n_parts < 2:
            return None
        strata = each.y.astype(np.intp) if classes else None
        return random_folds(groups, n_parts, seed, classes=strata)

    @cached_property
    def _file(self) -> tuple[Labels, list[str]]:
        """The keys of all rows of the file, and the text of its column of IDs, or of any."""
        reader = self.reader
        return read_column(as_path(reader.labels), reader.id_column or 0, reader.reading)

    @cached_property
    def _keys(self) -> list[str]:
        """The key of each row of the file."""
        labels, _ = self._file
        texts: list[str] = labels.keys.cast(pa.string()).take(pa.array(labels.index)).to_pylist()
        return texts

    @cached_property
    def _row_of_label(self) -> npt.NDArray[np.int64]:
        """The row of the file of each label that was read."""
        lines = self._file[0].lines
        assert lines is not None
        return np.searchsorted(lines, self.reader.lines)

    def described(self) -> dict[str, Any]:
        """Return row (of the library, or else of the file), ID and SMILES of each molecule of `rows`."""
        place, rows = self.labels.place, self.rows
        first = np.zeros(len(self.labels.y), np.int64)
        first[place[::-1][place[::-1] >= 0]] = self._row_of_label[::-1][place[::-1] >= 0]
        in_file, (_, texts) = first[rows].tolist(), self._file
        if self.reader.reading.key == "id":
            numbers, ids = self.labels.row[rows].tolist(), [self._keys[k] for k in in_file]
        else:
            named = self.reader.id_column is not None
            numbers, ids = in_file, [(texts[k].strip() if named else "") or f"row-{k}" for k in in_file]
        return {
            "row": pa.array(numbers, pa.int64()),
            "id": pa.array(ids, pa.string()),
            "smiles": pa.array([self.labels.smiles[i] for i in rows.tolist()], pa.string()),
        }

    def every_row(self) -> EveryLabel:
        """Return the rows of the file, with the number of each among `rows`, or why it has none."""
        place, (labels, texts) = self.labels.place, self._file
        assert labels.lines is not None
        number = np.full(len(self.labels.y), -1)
        number[self.rows] = np.arange(len(self.rows))
        at, of_label = self._row_of_label[::-1], np.where(place >= 0, number[place], -1)
        label, trained = np.full(len(labels.lines), -1), np.zeros(len(labels.lines), bool)
        label[at] = of_label[::-1]  # the first label of a row stays
        trained[at] = ((place >= 0) & (of_label < 0))[::-1]
        by_id = self.reader.reading.key == "id"
        return EveryLabel(
            label,
            np.isin(labels.lines, self.reader.lines),
            self._keys,
            "id" if by_id else "smiles",
            None if self.reader.id_column is None else texts,
            trained,
        )
