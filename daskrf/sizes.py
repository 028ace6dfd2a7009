"""Tell Dask how large sparse blocks are; otherwise spilling and scheduling would ignore their size.

Dask loads `register` through the entry point ``dask.sizeof`` wherever daskrf is installed.
"""

from __future__ import annotations

from typing import Any


def register(sizeof: Any) -> None:
    """Register sizes for SciPy's compressed arrays and for GCXS and COO of pydata/sparse.

    Dask 2026.8 is right for ``csr_matrix`` but reports 56 bytes for ``csr_array`` and GCXS.
    """

    @sizeof.register_lazy("scipy")
    def _register_scipy() -> None:
        from scipy import sparse

        for kind in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix):
            sizeof.register(kind, _compressed_bytes)
        for kind in (sparse.coo_array, sparse.coo_matrix):
            sizeof.register(kind, _coordinate_bytes)

    @sizeof.register_lazy("sparse")
    def _register_sparse() -> None:
        import sparse

        for kind in (sparse.GCXS, sparse.COO):
            sizeof.register(kind, _pydata_bytes)


def _compressed_bytes(x: Any) -> int:
    return int(x.data.nbytes + x.indices.nbytes + x.indptr.nbytes)


def _coordinate_bytes(x: Any) -> int:
    return int(x.data.nbytes + sum(c.nbytes for c in x.coords))


def _pydata_bytes(x: Any) -> int:
    return int(x.nbytes)
