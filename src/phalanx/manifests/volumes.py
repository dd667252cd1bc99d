"""The checks of a job's volumes, which Phalanx does not mount."""

from __future__ import annotations

from phalanx.manifests.fields import Fields
from phalanx.manifests.names import subdomain_fault


def read_volumes(at: Fields) -> None:
    """Check the `volumes` of a job. Warn that they are not mounted: processes see the node's own
    files there.
    """
    paths: set[str] = set()
    for item in at.items("volumes"):
        path = item.text("mountPath")
        if not path:
            item.error("mountPath", "mount_path_missing", "a volume needs a mountPath")
        elif path in paths:
            item.error("mountPath", "duplicate_mount_path", f"two volumes are mounted at {path}")
        paths.add(path)
        name, claim = item.text("volumeClaimName"), item.raw("volumeClaim")
        if not name and claim is None:
            reason = "a volume needs a volumeClaimName or a volumeClaim"
            item.error("", "volume_without_claim", reason)
        elif name and claim is not None:
            reason = "a volume needs either a volumeClaimName or a volumeClaim, not both"
            item.error("volumeClaim", "volume_claim_twice", reason)
        elif name and (fault := subdomain_fault(name)) is not None:
            item.error("volumeClaimName", "volume_claim_name", fault)
        item.raw("name")
        item.warn_unknown()
        reason = f"nothing is mounted: processes see the node's own files at {path or 'that path'}"
        item.warn("", "no_meaning_here", reason)
