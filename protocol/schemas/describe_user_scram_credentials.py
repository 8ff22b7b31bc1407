"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users."""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
)


class UserName(Message):
    name: str = ""


class DescribeUserScramCredentialsRequest(Message):
    users: tuple[UserName, ...] | None = ()


class CredentialInfo(Message):
    mechanism: int = 0
    iterations: int = 0


class DescribeUserScramCredentialsResult(Message):
    user: str = ""
    error_code: int = 0
    error_message: str | None = None
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


def describe_user_scram_credentials_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    user_name = message(
        UserName,
        flexible,
        "name" / string(flexible),
    )
    return message(
        DescribeUserScramCredentialsRequest,
        flexible,
        "users" / array(user_name, flexible, nullable=True),
    )


def describe_user_scram_credentials_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    credential_info = message(
        CredentialInfo,
        flexible,
        "mechanism" / Int8,
        "iterations" / Int32,
    )
    describe_user_scram_credentials_result = message(
        DescribeUserScramCredentialsResult,
        flexible,
        "user" / string(flexible),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "credential_infos" / array(credential_info, flexible),
    )
    return message(
        DescribeUserScramCredentialsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "results" / array(describe_user_scram_credentials_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=range(0, 1),
    flexible_from=0,
    request=describe_user_scram_credentials_request,
    response=describe_user_scram_credentials_response,
)
