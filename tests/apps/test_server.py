"""The server as a process: what it answers, what it refuses and how, many clients at once, and its end."""

import base64
import io
import json
import os
import shutil
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from tokenstn.apps.client import Client, ServerRefusedError, predict
from tokenstn.apps.embedded import embedded_model

from .processes import command, load_test

pytest.importorskip("litserve", reason="litserve is not installed")
load = load_test()
TOKEN = "wake up"
QUEUE, BYTES, PIXELS = 40, 200_000, 90_000
STRANGE = "of-a-stranger"  # in a path that was opened, it fails the tests of this file when the server ends


@pytest.fixture(scope="module")
def server():
    port = load.free_port()
    address = f"http://127.0.0.1:{port}"
    words = ["serve", str(embedded_model()), f"--port={port}", f"--queue={QUEUE}"]
    words += [f"--max_request_bytes={BYTES}", f"--max_pixels={PIXELS}"]
    environment = {"TOKENSTN_TOKEN": TOKEN, "WITNESS_PATHS": STRANGE}
    with command(*words, url=f"{address}/health", environment=environment) as process:
        yield address, process


@pytest.fixture(scope="module")
def address(server):
    return server[0]


@pytest.fixture(scope="module")
def files():
    return load.pictures(12)


@pytest.fixture(scope="module")
def expected(files):
    return load.offline(embedded_model(), files)


def post(address, body, kind, token=TOKEN):
    """Status and JSON of a request."""
    headers = {"Content-Type": kind, **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}/predict", body, headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def get(address, path, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", headers=headers)) as answer:
        return answer.read().decode()


def form(content, name="image"):
    body = f'--edge\r\nContent-Disposition: form-data; name="{name}"; filename="a.png"\r\n\r\n'.encode()
    return body + content + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"


def png(width, height):
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return file.getvalue()


def test_a_form_json_and_bytes_get_the_offline_answer(address, files, expected):
    in_json = json.dumps({"image": base64.b64encode(files[2]).decode()}).encode()
    data_url = json.dumps({"image": "data:image/png;base64," + base64.b64encode(files[2]).decode()}).encode()
    for body, kind in (
        form(files[2]), (in_json, "application/json"), (data_url, "application/json; charset=utf-8"),
        (files[2], "image/png"),
    ):  # fmt: skip
        status, answer = post(address, body, kind)
        assert status == 200 and load.difference(answer, expected[2]) <= load.TOLERANCE
        assert set(answer) == set(expected[2])


@pytest.mark.parametrize(
    ("body", "kind", "status", "reason"),
    [
        (form(bytes(BYTES)), None, 413, "more than 200,000 bytes"),
        (json.dumps({"image": "A" * BYTES}).encode(), "application/json", 413, "more than 200,000 bytes"),
        (png(400, 300), "image/png", 413, "400 × 300 pixels are more than the 90,000"),
        (b"no image at all", "image/png", 422, "not an image"),
        (png(40, 30)[:-20], "image/png", 422, "truncated"),
        (b"", "image/png", 422, "empty"),
        (form(png(4, 4), "picture"), None, 400, 'no file named "image"'),
        (b"--edge", "multipart/form-data", 400, "form"),
        (b'{"picture": ""}', "application/json", 400, "base64"),
        (b'{"image": "***"}', "application/json", 400, "base64"),
        (b"[" * 5000, "application/json", 400, "base64"),
        (b"x=1", "application/x-www-form-urlencoded", 415, "multipart/form-data"),
    ],
)
def test_what_is_refused_gets_a_reason_in_json(address, body, kind, status, reason):
    found, answer = post(address, *(body if isinstance(body, tuple) else (body, kind)))
    assert found == status and answer["status"] == status and reason in answer["detail"]


def test_a_body_without_a_length_is_cut_off_too(address):
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}Content-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"8000\r\n" + bytes(0x8000) + b"\r\n"
        for _ in range(8):  # 262,144 bytes
            connection.sendall(chunk)
        assert b" 413 " in connection.recv(64)


def test_no_path_of_a_request_reaches_the_disk(address, files, tmp_path):
    """The server's opened files are watched, see ``environment`` above: here is what it must not open."""
    there = tmp_path / f"{STRANGE}.png"
    there.write_bytes(files[1])
    for path in (str(there), f"../../../../../..{there}", f"file://{there}", f"{there}\x00.png"):
        body = f'--edge\r\nContent-Disposition: form-data; name="image"; filename="{path}"\r\n\r\n'.encode()
        kind = "multipart/form-data; boundary=edge"
        assert post(address, body + files[2] + b"\r\n--edge--\r\n", kind)[0] in (200, 400)
        text = f'--edge\r\nContent-Disposition: form-data; name="image"\r\n\r\n{path}\r\n--edge--\r\n'.encode()
        assert post(address, text, kind)[0] == 400
        assert post(address, json.dumps({"image": path}).encode(), "application/json")[0] == 400
        assert post(address, path.encode(), "image/png")[0] == 422
    for path in (f"/docs/..{there}", f"/{there}", f"/static{there}", f"/predict?image={there}"):
        with pytest.raises(urllib.error.HTTPError, match=r"40[45]"):
            get(address, path, TOKEN)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc/net")
def test_it_listens_on_loopback_alone(server):
    address, process = server
    port = int(address.rpartition(":")[2])
    listening = listening_on(port)
    assert listening == {"127.0.0.1"} and process.poll() is None


def test_without_the_token_there_is_no_answer(address, files):
    for token in (None, "wake", "wake up!", "Wake up"):
        status, answer = post(address, files[0], "image/png", token)
        assert status == 401 and "token" in answer["detail"]
    for path in ("/metrics", "/info"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(address, path)
    assert get(address, "/health") == "ok"  # for whoever watches over it
    assert json.loads(get(address, "/info", TOKEN))["model"]["estimated"] == ["rotation", "scale"]


def test_the_client_answers_and_says_why_not(address, files, expected, tmp_path):
    path = tmp_path / "digit.png"
    path.write_bytes(files[1])
    assert predict(path, address, TOKEN)["prediction"] == expected[1]["prediction"]
    with pytest.raises(ServerRefusedError, match="more than 200,000 bytes") as refused:
        predict(bytes(5_000_000), address, TOKEN)
    assert refused.value.status == 413
    with pytest.raises(ServerRefusedError, match="401"):
        predict(files[0], address, "wrong")
    with pytest.raises(ValueError, match="such as http"):
        Client("127.0.0.1:8000")


def test_the_description_and_its_page_come_from_here(address):
    api = json.loads(get(address, "/openapi.json"))
    operation = api["paths"]["/predict"]["post"]
    assert set(operation["requestBody"]["content"]) == {"multipart/form-data", "application/json", "image/*"}
    assert {"413", "422", "503", "401"} <= set(operation["responses"])
    fields = api["components"]["schemas"]["PredictAnswer"]["properties"]
    assert {"prediction", "rotation_deg", "translation_px", "pose_ambiguous", "class_uncertain"} <= set(fields)
    assert "http" not in get(address, "/docs").replace("http-equiv", "")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_the_page_shows_every_endpoint_and_lets_one_try(address, files, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    (tmp_path / "digit.png").write_bytes(files[1])
    said, asked = [], []
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/docs")
        page.wait_for_selector("#paths section:nth-child(3)")
        shown = page.inner_text("#paths")
        assert all(name in shown for name in ("/predict", "/metrics", "/health", "rotation_deg", "413"))
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        page.set_input_files("#file", tmp_path / "digit.png")
        page.fill("#token", TOKEN)
        page.click("button")
        page.wait_for_function("document.querySelector('#answer').textContent.startsWith('200')")
        assert "rotation_deg" in page.inner_text("#answer")
        browser.close()
    assert said == [] and all(url.startswith((address, "data:")) for url in asked)


def test_many_clients_get_the_offline_answers_in_batches(address, files, expected):
    before = metrics(address)
    found = load.storm(address, files, expected, clients=32, seconds=4, token=TOKEN)
    after = metrics(address)
    assert found.failed == {} and found.different == 0 and found.answered > 100
    images = after["tokenstn_batch_images_sum"] - before["tokenstn_batch_images_sum"]
    batches = after["tokenstn_batch_images_count"] - before["tokenstn_batch_images_count"]
    assert images == found.answered and images / batches > 1.5
    assert after["tokenstn_requests_total status=200"] - before["tokenstn_requests_total status=200"] == images
    assert after["tokenstn_requests_in_flight"] == 0
    classes = sum(value for name, value in after.items() if name.startswith("tokenstn_predictions_total"))
    assert classes == after["tokenstn_requests_total status=200"]
    assert after["tokenstn_reference_share le=+Inf quantity=rotation_deg"] == pytest.approx(1)
    # photos turned all around are not what the digits of the reference are
    assert after["tokenstn_drift quantity=rotation_deg"] > 0.25


def test_a_flood_is_turned_away_and_does_no_harm(address, files, expected):
    start = time.monotonic()
    statuses = load.flood(address, files[1], 150, TOKEN)
    assert set(statuses) == {200, 503} and statuses[200] >= QUEUE
    assert time.monotonic() - start < 30
    answer = predict(files[1], address, TOKEN)
    assert load.difference(answer, expected[1]) <= load.TOLERANCE


def test_slow_clients_hold_no_place(address, files, expected):
    """Twice as many as may wait have begun a request and do not go on; others are answered as ever."""
    host, port = address.removeprefix("http://").split(":")
    head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: image/png\r\n"
    slow = [socket.create_connection((host, int(port)), timeout=10) for _ in range(2 * QUEUE)]
    for connection in slow:
        connection.sendall(f"{head}Content-Length: 1000\r\n\r\nab".encode())
    for k, file in enumerate(files):
        assert load.difference(predict(file, address, TOKEN), expected[k]) <= load.TOLERANCE
    assert metrics(address)["tokenstn_requests_in_flight"] == 0
    for connection in slow:
        connection.close()
    assert post(address, files[0], "image/png")[0] == 200  # nor did their going do harm


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker in /proc")
def test_a_worker_that_dies_is_replaced(server, files, expected):
    address, process = server
    worker = worker_of(process.pid)
    os.kill(worker, signal.SIGKILL)
    until = time.monotonic() + 60
    while time.monotonic() < until and worker_of(process.pid, worker) is None:
        time.sleep(0.2)
    time.sleep(1.2)  # what the dead one had asked for is lost with it; it asks for a second at most
    answer = predict(files[3], address, TOKEN)  # waits until the model is loaded
    assert load.difference(answer, expected[3]) <= load.TOLERANCE


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker in /proc")
def test_sigterm_finishes_what_was_accepted(server, files, expected):
    """Last in this file: the server is gone afterwards."""
    address, process = server
    worker = worker_of(process.pid)
    answers = {}

    def ask(k):
        answers[k] = predict(files[k % 12], address, TOKEN)

    os.kill(worker, signal.SIGSTOP)  # requests queue up until it goes on
    try:
        threads = [threading.Thread(target=ask, args=(k,)) for k in range(30)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 30
        while metrics(address)["tokenstn_requests_in_flight"] < 30 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert answers == {} and process.poll() is None
    finally:
        os.kill(worker, signal.SIGCONT)
    for thread in threads:
        thread.join(60)
    assert process.wait(30) == 0
    assert len(answers) == 30
    assert all(load.difference(answer, expected[k % 12]) <= load.TOLERANCE for k, answer in answers.items())
    said = process.stdout.read()
    assert "every request that was accepted is answered" in said and "Traceback" not in said
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def listening_on(port):
    """The addresses on which somebody listens at a port; IPv6 as it stands in the table."""
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            place, state = line.split()[1], line.split()[3]
            host, at = place.split(":")
            if state == "0A" and int(at, 16) == port:
                found.add(socket.inet_ntoa(bytes.fromhex(host)[::-1]) if len(host) == 8 else host)
    return found


def worker_of(server, but=None):
    """The process that holds the model, among the children of the server; not the one that is known to be dead."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == server and int(entry.name) != but and b"spawn_main" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:  # it ended meanwhile
            continue
    return None


def metrics(address):
    """Values by name and labels."""
    found = {}
    for family in text_string_to_metric_families(get(address, "/metrics", TOKEN)):
        for sample in family.samples:
            found[" ".join([sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))])] = (
                sample.value
            )
    return found
