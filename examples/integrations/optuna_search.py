"""A search by Optuna whose trials are tasks: the study is a journal in a file that all nodes share.

pip install optuna
python examples/integrations/optuna_search.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    import phalanx
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install optuna") from None


TRIALS, AT_ONCE = 24, 4


def study(journal: str) -> optuna.Study:
    """Open the study in that file; create it when it does not exist."""
    backend = JournalFileBackend(journal, lock_obj=JournalFileOpenLock(journal))
    storage = JournalStorage(backend)
    return optuna.create_study(study_name="search", storage=storage, load_if_exists=True)


def objective(trial: optuna.Trial) -> float:
    """Return the squared distance of a point from (1, -2)."""
    x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
    return (x - 1) ** 2 + (y + 2) ** 2


@phalanx.remote(num_cpus=1)
def search(journal: str, trials: int) -> None:
    """Run this number of trials one after another. Each trial uses the results of all processes."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study(journal).optimize(objective, n_trials=trials)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    phalanx.init()
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory, "journal.log"))
        study(path)
        phalanx.get([search.remote(path, TRIALS // AT_ONCE) for _ in range(AT_ONCE)])
        found = study(path)
        print(f"{len(found.trials)} trials, the best {found.best_value:.3f} at {found.best_params}")
