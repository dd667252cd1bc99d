"""Optuna's own tests of storages, run on the journal in which the example keeps its study."""

import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.testing.pytest_storages import StorageTestCase


class TestJournal(StorageTestCase):
    @pytest.fixture
    def storage(self, tmp_path):
        path = str(tmp_path / "journal.log")
        return JournalStorage(JournalFileBackend(path, lock_obj=JournalFileOpenLock(path)))
