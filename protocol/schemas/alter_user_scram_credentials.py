"""AlterUserScramCredentials (key 51), version 0: set and remove the SCRAM credentials of users (KIP-554).

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    SecretMessage,
    array,
    blob,
    message,
    string,
)


class ScramCredentialDeletion(Message):
    name: str = ""
    mechanism: int = 0


class ScramCredentialUpsertion(SecretMessage):
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message):
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(Message):
    user: str = ""
    error_code: int = 0
    error_message: str | None = None


class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


def alter_user_scram_credentials_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    scram_credential_deletion = message(
        ScramCredentialDeletion,
        flexible,
        "name" / string(flexible),
        "mechanism" / Int8,
    )
    scram_credential_upsertion = message(
        ScramCredentialUpsertion,
        flexible,
        "name" / string(flexible),
        "mechanism" / Int8,
        "iterations" / Int32,
        "salt" / blob(flexible),
        "salted_password" / blob(flexible),
    )
    return message(
        AlterUserScramCredentialsRequest,
        flexible,
        "deletions" / array(scram_credential_deletion, flexible),
        "upsertions" / array(scram_credential_upsertion, flexible),
    )


def alter_user_scram_credentials_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    alter_user_scram_credentials_result = message(
        AlterUserScramCredentialsResult,
        flexible,
        "user" / string(flexible),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        AlterUserScramCredentialsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "results" / array(alter_user_scram_credentials_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions=range(0, 1),
    flexible_from=0,
    request=alter_user_scram_credentials_request,
    response=alter_user_scram_credentials_response,
)
