"""Files for people to look at, put into the run of a study."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from hsearch.search.record import StudyRecord
from hsearch.tracking.address import without_credentials
from hsearch.tracking.failure import reason_of
from hsearch.tracking.projection import STUDY, experiment_name, study_id, study_view
from hsearch.tracking.writer import Writer, open_client


def log_files(
    uri: str, studies: Sequence[StudyRecord], folder: str, files: Sequence[Path]
) -> str | None:
    """Puts files into a folder of the artifacts of every study's run, where they are not yet.

    Args:
        uri: MLflow's address, see `checked_uri`.
        studies: Each with at least one trial; a study that MLflow does not know yet is written.
        folder: Among the artifacts.
        files: To copy; those of the same names are replaced.

    Returns:
        Why that did not work, in a sentence; None if it did.
    """
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    try:
        client = open_client(uri)
        for study in studies:
            noted = {study.run_id or ""}
            experiment = experiment_name(study.spec.job)
            writer = Writer(client, uri, experiment, study_id(study), noted)
            if STUDY not in writer:
                writer.write(study_view(study, "FINISHED"))
            writer.write_files(STUDY, folder, files, digest)
    except Exception as error:  # noqa: BLE001 (artifact stores raise errors of their own kinds)
        return f"MLflow ({without_credentials(uri)}) does not have {folder}: {reason_of(error)}."
    return None
