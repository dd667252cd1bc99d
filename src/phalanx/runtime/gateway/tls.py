"""TLS 1.3 with a certificate that the gateway makes when it starts.

No authority signs the certificate, and no peer checks a signature: the handshake of
`protocol.handshake` binds both proofs to the certificate, so at both ends there must be a holder of
the token.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import ssl

from phalanx.runtime.os.session import Session

_VALID_DAYS = 3650


class Identity:
    """The identity of a gateway: the TLS context with its certificate, and the certificate's
    fingerprint (SHA-256).
    """

    def __init__(self, session: Session) -> None:
        pem, der = _self_signed(session.name)
        path = os.path.join(session.directory, "gateway.pem")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(pem)
        self.fingerprint = fingerprint(der)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.num_tickets = 0
        self.context.load_cert_chain(path)


def dialling_context() -> ssl.SSLContext:
    """Return the context of the side that dials. It checks no signature (see the module's text)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint(certificate: bytes) -> bytes:
    """Return the channel binding of a certificate in DER."""
    return hashlib.sha256(certificate).digest()


def _self_signed(name: str) -> tuple[bytes, bytes]:
    """Return (key and certificate as PEM, certificate as DER)."""
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
    encoding = serialization.Encoding
    return pem + certificate.public_bytes(encoding.PEM), certificate.public_bytes(encoding.DER)
