import contextlib
import http.server
import pickle
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from hsearch.errors import ConfigError
from hsearch.models.weights import load_weights, reachable


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


def filled():
    net = network()
    with torch.no_grad():
        for index, value in enumerate(net.state_dict().values()):
            value.fill_(index + 1)
    return net.state_dict()


def saved(path, state):
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return path


def assert_loads(path, **arguments):
    net = network()
    load_weights(net, path, **arguments)
    own = net.state_dict()
    assert all(torch.equal(own[name], value) for name, value in filled().items())


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "w"])
def test_a_file_of_tensors_loads(tmp_path, name):
    assert_loads(saved(tmp_path / name, filled()))


@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
def test_a_wrapped_state_dict_loads(tmp_path, wrapper):
    assert_loads(saved(tmp_path / "w.pth", {"epoch": 3, wrapper: filled()}))


def test_the_prefix_of_data_parallel_and_the_classifier_are_seen_through(tmp_path):
    state = {f"module.{name}": value for name, value in filled().items()}
    state["module.fc.weight"] = torch.ones(2, 4)
    assert_loads(saved(tmp_path / "w.safetensors", state), ignore=("fc",))


def test_the_leading_axis_of_old_ports_is_seen_through(tmp_path):
    state = {k: v[None] if k.startswith("1.") and v.ndim else v for k, v in filled().items()}
    assert_loads(saved(tmp_path / "w.pth", state))


def test_files_from_before_the_batch_counter_load(tmp_path):
    state = {k: v for k, v in filled().items() if not k.endswith("num_batches_tracked")}
    loaded = network()
    load_weights(loaded, saved(tmp_path / "w.pth", state))
    assert all(torch.equal(loaded.state_dict()[key], value) for key, value in state.items())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda state: state.pop("0.bias"), "the file misses '0.bias';"),
        (lambda state: state.update(extra=torch.ones(1)), "has 'extra', which the network has not"),
        (
            lambda state: state.update({"0.bias": torch.ones(5)}),
            "has '0.bias' of shape (5,) instead of (4,);",
        ),
        (
            lambda state: [state.pop("0.bias"), state.pop("0.weight")],
            "misses '0.weight' (and 1 more differences);",
        ),
    ],
)
def test_weights_that_do_not_fit_change_nothing(tmp_path, change, sentence):
    state = filled()
    change(state)
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(ConfigError) as error:
        load_weights(net, saved(tmp_path / "w.pth", state))
    assert sentence in str(error.value)
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())


class Trap:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.mark.parametrize("save", [torch.save, lambda x, path: path.write_bytes(pickle.dumps(x))])
def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path, save):
    target = tmp_path / "executed"
    save({"0.weight": Trap(target)}, tmp_path / "w.pth")
    with pytest.raises(ConfigError, match="nothing but tensors are accepted") as error:
        load_weights(network(), tmp_path / "w.pth")
    assert not target.exists()
    assert "trust" not in str(error.value)  # torch's own message advises to load it anyway


@pytest.mark.parametrize("content", [[torch.ones(1)], {"a": 1}, {1: torch.ones(1)}, torch.ones(2)])
def test_other_content_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(ConfigError, match="must hold a state dict"):
        load_weights(network(), tmp_path / "w.pth")


def test_a_missing_file_and_a_folder_are_no_weights(tmp_path):
    for path in (tmp_path / "none.pth", tmp_path):
        with pytest.raises(ConfigError, match="there is no file"):
            load_weights(network(), path)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "old.pth"])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_file_loads_or_ends_in_a_sentence(tmp_path, name, data):
    path = saved(tmp_path / name, filled())
    if name == "old.pth":
        torch.save(filled(), path, _use_new_zipfile_serialization=False)
    content = bytearray(path.read_bytes())
    for _ in range(4):
        place = data.draw(st.integers(0, min(len(content), 1200) - 1))
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with contextlib.suppress(ConfigError):
        load_weights(network(), path)


def test_reachable_asks_the_host_of_an_address(monkeypatch):
    monkeypatch.setattr("hsearch.models.weights.getproxies", dict)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/weights.pth"
    assert reachable(url)
    server.shutdown()
    server.server_close()
    thread.join()
    assert not reachable(url)
