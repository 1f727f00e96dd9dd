"""The grants that models behind the ensembles ask for."""

from __future__ import annotations

import stat

import pytest

from qwen_image.errors import InvalidRequest
from qwen_image.request.grants import SECRET_NAME, Cost, Grants

COST = Cost(height=64, width=96, num_inference_steps=20, first_step=3, picture_bytes=18_440)


def test_a_grant_says_what_was_granted_and_the_unlimited_one_nothing():
    grants = Grants(b"secret")
    assert grants.check(grants.issue(COST)) == COST
    assert grants.check(grants.unlimited) is None


@pytest.mark.parametrize("position", [0, 31, 32, -1])
def test_a_grant_of_which_a_bit_was_changed_is_refused(position):
    grants = Grants(b"secret")
    changed = bytearray(grants.issue(COST))
    changed[position] ^= 1
    with pytest.raises(InvalidRequest, match="send yours to qwen_image or qwen_image_stream"):
        grants.check(bytes(changed))


@pytest.mark.parametrize("made", [b"", b"x" * 32, Grants(b"other").unlimited, Grants(b"other").issue(COST)])
def test_what_was_made_without_the_secret_is_refused(made):
    with pytest.raises(InvalidRequest):
        Grants(b"secret").check(made)


def test_all_who_ask_at_once_share_a_secret_that_only_the_servers_user_can_read(tmp_path, at_once):
    codes = at_once(lambda folder: Grants.in_folder(folder).unlimited, [tmp_path] * 32)
    assert len(set(codes)) == 1
    (file,) = tmp_path.iterdir()
    assert file.name == SECRET_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_two_servers_have_secrets_of_their_own(tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    assert Grants.in_folder(folders[0]).unlimited != Grants.in_folder(folders[1]).unlimited
