"""kafka-storage: an id for a cluster, and users for the first start. Eosin formats its directory itself, at the start.

`format` ends with 0, because scripts that edit an image's entry point call it before the broker starts.
"""

import os
from collections.abc import Sequence

from eosin.cli.image.state import State
from eosin.cli.kafka_programs.queries import Unanswerable
from eosin.cli.kafka_programs.words import parse_words
from eosin.protocol.names import uuid_text
from eosin.runtime.chance import SystemChance
from eosin.settings.settings import SettingError


def main(arguments: Sequence[str]) -> int:
    """Run the program; returns its exit code. Raises Unanswerable."""
    action, *rest = arguments or [""]
    if action == "random-uuid":
        print(uuid_text(SystemChance().uuid()))
        return 0
    if action == "info":
        print("Eosin keeps its data where log.dirs says, and makes the directory at the start.")
        return 0
    if action == "version-mapping":
        return 0
    if action != "format":
        raise Unanswerable("give random-uuid, format or info")
    users = parse_words(rest).all("add-scram", "S")
    if users:
        from eosin.broker.security.first_users import parse_first_user

        try:
            for each in users:
                parse_first_user(each, key="--add-scram")
        except SettingError as refused:
            raise Unanswerable(str(refused)) from None
        State(os.environ).add_users(users)
    print("Formatting is done at the start of the broker.")
    return 0
