"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class UserName(Message):
    name: str = ""


class DescribeUserScramCredentialsRequest(Message):
    users: tuple[UserName, ...] | None = ()


class CredentialInfo(Message):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Message):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = None
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=range(0, 1),
    flexible_from=0,
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
)
