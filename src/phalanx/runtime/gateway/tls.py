"""TLS 1.3 with a certificate that the gateway makes when it first starts.

No authority signs the certificate, and no gateway checks a signature: the handshake of
`protocol.handshake` binds both proofs to the certificate, so at both ends there must be a holder of
the token. A person's login also remembers the certificate, so a head keeps it beside its store.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import ssl

from phalanx.errors import AuthenticationError
from phalanx.runtime.os.private_files import NotPrivateError, read_private, write_draft

_VALID_DAYS = 3650
_MAX_BYTES = 1 << 20
_BEGIN = "-----BEGIN CERTIFICATE-----"


class Identity:
    """The identity of a gateway: the TLS context with its certificate, and the certificate's
    fingerprint (SHA-256).
    """

    def __init__(self, path: str, name: str) -> None:
        """`path`: the file with key and certificate in PEM, which is made if there is none. `name`:
        the name in a new certificate. Raises AuthenticationError for a file of another user, and
        for one that lacks the key or the certificate.
        """
        if not os.path.lexists(path):
            _make(path, name)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.num_tickets = 0
        self.fingerprint = fingerprint(_certificate(path))
        try:
            self.context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise AuthenticationError(
                f"{path} must have a key, and its certificate first ({error.reason}): remove it, "
                "and the head makes both"
            ) from None


def _certificate(path: str) -> bytes:
    """Return the first certificate in a private file, as DER. Raises AuthenticationError."""
    try:
        text = read_private(path, _MAX_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise AuthenticationError(f"{path} cannot be read: {error.strerror}") from None
    except NotPrivateError:
        raise AuthenticationError(f"{path} must be a file of this user, with mode 0600") from None
    at = text.find(_BEGIN)
    end = text.find("-----END CERTIFICATE-----", at)
    if at < 0 or end < 0:
        raise AuthenticationError(f"{path} has no certificate in PEM")
    try:
        return ssl.PEM_cert_to_DER_cert(text[at:end] + "-----END CERTIFICATE-----\n")
    except ValueError as error:
        raise AuthenticationError(f"{path} has a broken certificate: {error}") from None


def _make(path: str, name: str) -> None:
    """Write a new key and its certificate. If several processes do this at the same time, the file
    of one of them stays.
    """
    draft = write_draft(path, _self_signed(name))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def dialling_context() -> ssl.SSLContext:
    """Return the context of the side that dials. It checks no signature (see the module's text)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint(certificate: bytes) -> bytes:
    """Return the channel binding of `certificate`, which is in DER: its SHA-256."""
    return hashlib.sha256(certificate).digest()


def _self_signed(name: str) -> bytes:
    """Return a new key and its self-signed certificate as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"phalanx {name}")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem + certificate.public_bytes(serialization.Encoding.PEM)
