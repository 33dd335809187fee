"""Twenty tests with the fixtures, against the installed package."""

import time
import urllib.error
import urllib.request

import pytest

import orrery as package


def get(server, path):
    with urllib.request.urlopen(server.endpoint + path) as answer:
        return answer.status, answer.read().decode()


def test_a_server_starts_in_under_a_second():
    package.start().stop()  # The first start reads the program from the disk.
    began = time.perf_counter()
    with package.start() as server:
        took = time.perf_counter() - began
        assert get(server, "readyz")[0] == 200
    print(f"started in {took * 1000:.0f} ms")
    assert took < 1.0


def test_it_is_ready(orrery):
    assert get(orrery, "readyz") == (200, "ready\n")


def test_the_connection_string_has_endpoint_and_key(orrery):
    assert orrery.connection_string == f"AccountEndpoint={orrery.endpoint};AccountKey={orrery.key};"
    assert str(orrery.port) in orrery.endpoint


def test_a_stopped_server_is_gone():
    server = package.start()
    server.stop()
    with pytest.raises(urllib.error.URLError):
        get(server, "readyz")


def test_data_of_a_folder_outlives_the_server(tmp_path):
    for _ in range(2):
        with package.start(data=tmp_path) as server:
            assert get(server, "readyz")[0] == 200
    assert (tmp_path / "store").is_dir()


def test_a_wrong_setting_is_one_sentence():
    with pytest.raises(package.OrreryError) as error:
        package.start(arguments=["--ranges", "0"])
    assert "'ranges' is '0'" in str(error.value)
    assert "Traceback" not in str(error.value)


def test_a_port_that_is_taken_is_named(orrery):
    with pytest.raises(package.OrreryError) as error:
        package.start(port=orrery.port)
    assert "in use" in str(error.value)


def test_a_program_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("ORRERY_BINARY", "/nowhere/orrery")
    with pytest.raises(package.OrreryError, match="/nowhere/orrery"):
        package.start()


@pytest.mark.parametrize("number", range(11))
def test_each_test_has_a_container_of_its_own(orrery_container, number):
    orrery_container.create_item({"id": "1", "pk": "a", "number": number})
    found = orrery_container.query_items("SELECT VALUE c.number FROM c", partition_key="a")
    assert list(found) == [number]


def test_items_are_read_back(orrery_container):
    orrery_container.upsert_item({"id": "1", "pk": "a"})
    assert orrery_container.read_item("1", "a")["pk"] == "a"
