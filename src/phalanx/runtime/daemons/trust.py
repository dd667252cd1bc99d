"""The certificate that a head on another machine must show, and the check of it.

The proofs of the handshake bind a token to the certificate, so a man in the middle gets nothing.
The certificate itself is checked first, because a holder of the head's table of hashes could
otherwise stand in the middle and read the secret of a token out of a proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from phalanx.errors import AuthenticationError

if TYPE_CHECKING:
    import ssl


class Trust(NamedTuple):
    """The certificate that a head must show. By default, any certificate is accepted."""

    fingerprint: str = ""
    """The SHA-256 of the certificate, in hex."""
    ca: str = ""
    """The file with the certificates of the authorities that may have signed the head's
    certificate.
    """

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the side that dials. Raises AuthenticationError for a file
        without certificates.
        """
        import ssl  # slow to import, and most programs connect to nothing outside of their machine

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if not self.ca:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            context.load_verify_locations(self.ca)
        except OSError as error:  # SSLError is one
            raise AuthenticationError(
                f"{self.ca} is no file with certificates of authorities: {error}"
            ) from None
        return context

    def binding(self, certificate: bytes, where: str) -> bytes:
        """Return the channel binding of a certificate. `certificate`: what the head at the address
        `where` has shown, in DER.

        Raises AuthenticationError if the certificate is not the pinned one.
        """
        # Slow to import, and most commands ask no head on another machine.
        import hashlib
        import hmac

        digest = hashlib.sha256(certificate).digest()
        if self.fingerprint and not hmac.compare_digest(digest.hex(), self.fingerprint):
            raise AuthenticationError(
                f"the head at {where} shows another certificate than before: its fingerprint is "
                f"{shown(digest.hex())}, and that of this login is {shown(self.fingerprint)}. "
                "Either the head has a new certificate, or somebody stands between. Ask the head's "
                "administrator; to accept it, log out and log in again"
            )
        return digest


def shown(fingerprint: str) -> str:
    """Return a fingerprint as people compare it: `SHA256:` and pairs of digits."""
    pairs = [fingerprint[at : at + 2] for at in range(0, len(fingerprint), 2)]
    return "SHA256:" + ":".join(pairs)


def read_fingerprint(text: str) -> str:
    """Return the 64 hex digits of a fingerprint in the form of `shown`, with or without colons.
    Raises ValueError.
    """
    digits = text.strip().upper().removeprefix("SHA256").replace(":", "").lower()
    if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise ValueError(
            f"{text!r} is not a fingerprint. A fingerprint has 64 hexadecimal digits, such as "
            "SHA256:ab:cd:…"
        )
    return digits
