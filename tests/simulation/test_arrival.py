"""The arrival experiment, its published table, and `phalanx simulate` for this experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from phalanx.cli.typer_app import app
from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_benchmarks.simulating import run as run_benchmark
from phalanx_research.arrival.experiment import ArrivalRun, run_arrivals
from phalanx_research.arrival.reproduce import MEASURES, PUBLISHED, differences, table
from phalanx_research.arrival.synthetic import FORMS, synthetic_jobs
from phalanx_research.arrival.workload import draw_workload
from phalanx_research.over_time import interval_means
from phalanx_research.traces.reading import read_jobs, read_nodes
from phalanx_research.traces.records import TraceJob, TraceNode

TRACES = Path(__file__).parents[2] / "examples" / "traces"
NODES_FILE = TRACES / "openb_node_list_gpu_node.csv.gz"
PODS_FILE = TRACES / "openb_pod_list_default.csv.gz"
KEYS = ("alloc_pct_at_arrived_100", "alloc_pct_at_arrived_130", "frag_pct_capacity_at_50",
        "frag_pct_capacity_at_100", "failed_pods", "placements_per_s")  # fmt: skip


@cache
def trace() -> tuple[list[TraceNode], list[TraceJob]]:
    return read_nodes(NODES_FILE), read_jobs(PODS_FILE)


def run(policy: str, form: str = "default") -> ArrivalRun:
    nodes, jobs = trace()
    if form != "default":
        jobs = synthetic_jobs(form, nodes, jobs, seed=1)
    return run_arrivals(draw_workload(nodes, jobs, inflate=1.3, seed=42), policy, seed=42)


def small(tmp_path: Path) -> list[str]:
    """Return options of the command for two nodes and six pods."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,100,2,T4\nb,8000,100,2,A10\n")
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
        + "".join(f"p{i},1000,1,1,{milli}\n" for i, milli in enumerate((500, 600, 1000) * 2))
    )
    return ["simulate", "--nodes", str(nodes), "--pods", str(pods)]


def test_the_workload_is_the_seeds() -> None:
    nodes, jobs = trace()
    one, again, other = (
        draw_workload(nodes, turned, inflate=1.3, seed=seed)
        for turned, seed in ((jobs, 42), (jobs[::-1], 42), (jobs, 43))
    )
    assert one.arrivals == again.arrivals
    assert one.nodes == again.nodes
    assert one.arrivals != other.arrivals
    assert one.nodes != other.nodes
    asked = sum(shape.milli for shape in one.arrivals)
    assert 1.3 * 6_212_000 - 1000 <= asked < 1.3 * 6_212_000 + 7000


@pytest.mark.parametrize("policy", ["firstfit", "bestfit", "fgd"])
def test_one_seed_is_near_the_published_mean(policy: str) -> None:
    figures = run(policy).figures()
    paper = PUBLISHED.get(policy, (94.4, None, None, None))
    for name, expected in zip(MEASURES, paper, strict=True):
        if expected is not None:
            assert figures[name] == pytest.approx(expected, abs=1.0)


def test_a_run_repeats() -> None:
    one, again = run("random"), run("random")
    assert (one.alloc_pct == again.alloc_pct).all()
    assert (one.gpu_left == again.gpu_left).all()


@pytest.mark.slow  # half a minute; the other tests of this policy take smaller clusters
def test_scarcity_allocates_more_than_fgd_and_firstfit() -> None:
    ours, *others = (run(policy, "gpuspec33") for policy in ("scarcity", "fgd", "firstfit"))
    reached = ours.at(ours.alloc_pct, 100)
    assert reached is not None
    assert all(reached > (other.at(other.alloc_pct, 100) or 100) for other in others)


HAS: dict[str, Callable[[TraceJob], bool]] = {
    "gpushare": lambda job: job.shape.is_shared,
    "gpuspec": lambda job: bool(job.models),
    "multigpu": lambda job: job.num_gpu > 1,
}


@pytest.mark.parametrize("form", FORMS)
def test_synthetic_traces_have_their_property(form: str) -> None:
    nodes, default = trace()
    jobs = synthetic_jobs(form, nodes, default, seed=3)
    kind, number = form.rstrip("0123456789"), int(form.lstrip("abcdefghijklmnopqrstuvwxyz"))
    if kind == "cpu":
        assert 1000 * fmean(not job.num_gpu for job in jobs) == pytest.approx(number, abs=1)
    else:
        asked = sum(job.shape.milli for job in jobs)
        having = sum(job.shape.milli for job in jobs if HAS[kind](job))
        assert 100 * having / asked == pytest.approx(number, abs=0.5)
    assert len({job.name for job in jobs}) == len(jobs)
    could = {(n.gpus, n.cpu_milli, n.model) for n in nodes}
    assert all(
        any(
            g >= job.num_gpu and c >= job.cpu_milli and (not job.models or m in job.models)
            for g, c, m in could
        )
        for job in set(jobs)
    )


def test_a_form_that_is_none() -> None:
    with pytest.raises(ValueError, match="no form 'cpu300'; there are: cpu050"):
        synthetic_jobs("cpu300", *trace(), seed=1)


def test_differences_and_table() -> None:
    figures = {p: [[c + 0.5, c + 0.5] for c in cells] for p, cells in PUBLISHED.items()}
    assert differences(figures) == pytest.approx([0.5] * 24)
    text = table(figures | {"firstfit": [[94.4, 94.6]] * 4, "scarcity": [[95.0, 96.0]] * 4})
    assert "| difference | +0.50 |" in text
    assert "95.50 ± 0.71" in text


def test_json_has_the_agreed_names(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*small(tmp_path), "--policy", "FGD", "--json"])
    assert result.exit_code == 0, result.output
    assert tuple(json.loads(result.stdout)) == KEYS


def test_json_of_several_policies_is_by_their_names(tmp_path: Path) -> None:
    given = [*small(tmp_path), "--policy", "firstfit", "--policy", "random", "--json"]
    figures = json.loads(CliRunner().invoke(app, given).stdout)
    assert list(figures) == ["firstfit", "random"]
    assert all(tuple(each) == KEYS for each in figures.values())


def test_several_policies_and_a_page(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    given = [*small(tmp_path), "--policy", "fgd", "--policy", "scarcity", "--report", str(page)]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert "scarcity" in result.stdout.splitlines()[0]
    assert "Fragmentation over load" in page.read_text()


def test_a_configuration_names_its_policy(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: fragmentation\n"
        "    arguments:\n      fragmentation.policy: bestfit\n"
    )
    by_file, by_name = (
        json.loads(CliRunner().invoke(app, [*small(tmp_path), "--policy", policy, "--json"]).stdout)
        for policy in (str(config), "bestfit")
    )
    for key in KEYS[:-1]:
        assert by_file[key] == by_name[key]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--policy", "best"], "there is no policy 'best'; known policies: random, dotprod"),
        (["--policy", "fgd", "--queues", "q.yaml"], "--queues needs --arrival time"),
        (["--policy", "fgd", "--policy", "fgd"], "--policy names a policy twice"),
        (["--policy", "fifo", "--arrival", "time", "--inflate", "2"], "needs --arrival order"),
        (["--policy", "best", "--arrival", "time"], "there is no policy 'best'; there are: fifo"),
        (["--policy", "fifo", "--arrival", "time"], "no job has both a submission time and a run"),
        (["--policy", "srtf"], "srtf orders waiting jobs; use it with --arrival time"),
        (["--policy", "none.yaml"], "none.yaml: No such file"),
        (["--policy", "bare.yaml"], "no plugin 'fragmentation' in any tier"),
    ],
)
def test_what_cannot_be_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bare.yaml").write_text("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n")
    result = CliRunner().invoke(app, [*small(tmp_path), *more])
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    options = small(tmp_path)
    pods = Path(options[4])
    pods.write_text(pods.read_text().replace("p1,1000", "p1,-5"))
    result = CliRunner().invoke(app, [*options, "--policy", "fgd"])
    assert result.exit_code == 2
    assert f"{pods}, line 3: cpu_milli is -5; it must be 0 or more" in result.stderr


def test_nodes_without_gpus_are_told_of(tmp_path: Path) -> None:
    options = small(tmp_path)
    Path(options[2]).write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,100,0,\n")
    result = CliRunner().invoke(app, [*options, "--policy", "fgd"])
    assert result.exit_code == 2
    assert "the nodes have no GPU" in result.stderr


def timed(tmp_path: Path, *rows: str) -> list[str]:
    """Return options of the command for one node with one GPU and jobs from rows."""
    nodes, jobs = tmp_path / "n.csv", tmp_path / "j.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,100,1,T4\n")
    jobs.write_text("\n".join(rows) + "\n")
    return ["simulate", "--nodes", str(nodes), "--pods", str(jobs), "--arrival", "time"]


@pytest.mark.parametrize(
    ("policy", "jct_mean_s"), [("fifo", 11.0), ("SRTF", 9.0), ("fgd", 11.0), ("scarcity", 11.0)]
)
def test_jobs_at_their_own_times(tmp_path: Path, policy: str, jct_mean_s: float) -> None:
    """One GPU. b arrives at 1 and works for 3 s. Under srtf, b runs before a ends, one cycle after
    a was evicted; under the other policies b waits for a.
    """
    given = timed(tmp_path, "name,submit_s,duration_s,gpus,queue", "a,0,10,1,q", "b,1,3,1,q")
    page = tmp_path / "p.html"
    result = CliRunner().invoke(app, [*given, "--policy", policy, "--json", "--report", str(page)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["jct_mean_s"] == jct_mean_s
    assert [(q["name"], q["jobs"]) for q in figures["queues"]] == [("q", 2)]
    text = page.read_text()
    for head in ("Waiting over time", "Fragmentation over time", "Queue by queue"):
        assert head in text


MURI = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time"
STAGES = ",resource_time_0,resource_time_1,resource_time_2"


@pytest.mark.parametrize(
    ("policy", "more", "jct_mean_s"),
    [
        # The GPU works 101.5 s for a, then 10.15 s for b, and each start takes 10 s, or nothing.
        ("fifo", (), (111.5 + 131.65 - 50) / 2),
        ("fifo", ("--no-overheads",), (101.5 + 111.65 - 50) / 2),
        # b comes at 50 and passes a, which loses 10 s of what it did until then, or nothing.
        ("srtf", ("--rules", "muri"), (121.65 + 10.15) / 2),
        ("srtf", ("--rules", "muri", "--no-overheads"), (111.65 + 10.15) / 2),
    ],
)
def test_overheads_at_starts_and_at_events(
    tmp_path: Path, policy: str, more: tuple[str, ...], jct_mean_s: float
) -> None:
    given = timed(tmp_path, MURI, "a,1,0,100,bert,1000", "b,1,50000,10,bert,1000")
    result = CliRunner().invoke(app, [*given, "--policy", policy, "--json", *more])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["jct_mean_s"] == pytest.approx(jct_mean_s, abs=1e-3)


def test_equals_go_by_number_where_names_are_numbers(tmp_path: Path) -> None:
    """Jobs 0 to 9 take a second each. Job 10 takes five seconds and comes last."""
    rows = [f"{name},1,0,{5000 if name == 10 else 1000},bert,1" for name in range(11)]
    given = timed(tmp_path, MURI, *rows)
    more = ["--policy", "fifo", "--no-overheads", "--json"]
    result = CliRunner().invoke(app, [*given, *more])
    assert result.exit_code == 0, result.output
    jct_mean_s = 1.015 * (sum(range(1, 11)) + 15) / 11
    assert json.loads(result.stdout)["jct_mean_s"] == pytest.approx(jct_mean_s, abs=1e-3)


@pytest.mark.parametrize("policy", ["muri-s", "Muri-L", "antman", "themis"])
def test_policies_that_no_cluster_runs(tmp_path: Path, policy: str) -> None:
    given = timed(tmp_path, MURI + STAGES, "1,1,0,100,bert,1000,0,900,100")
    page = tmp_path / "p.html"
    more = ["--policy", policy, "--rules", "muri", "--json", "--report", str(page)]
    result = CliRunner().invoke(app, [*given, *more])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["jct_mean_s"] == 101.5
    assert "Waiting over time" in page.read_text()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--policy", "muri"), "there is no policy 'muri'; there are: fifo, sjf, "),
        (
            ("--policy", "muri"),
            "with --rules muri srtf, srsf, tiresias, antman, muri-l, muri-s",
        ),
        (("--policy", "muri-s"), "no cluster runs the policy 'muri-s'; it needs --rules muri"),
        (("--policy", "fifo", "--rules", "muri"), "--rules muri has no policy 'fifo'; it has srtf"),
        (("--policy", "nobody", "--rules", "muri"), "there is no policy 'nobody'"),
        (
            ("--policy", "antman", "--rules", "muri"),
            "policy antman needs the stage times of every job's iteration, and job a has none",
        ),
        (
            ("--policy", "fgd", "--rules", "muri", "--arrival", "order"),
            "--rules needs --arrival time",
        ),
        (
            ("--policy", "fgd", "--no-overheads", "--arrival", "order"),
            "--overheads needs --arrival time",
        ),
    ],
)
def test_rules_that_do_not_go_with_a_policy(
    tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    given = timed(tmp_path, MURI, "a,1,0,100,bert,1000")
    result = CliRunner().invoke(app, [*given, *more])
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("queue", "code", "says"),
    [("q", 0, '"finished": 2'), ("p", 2, "there is no queue 'q'; there are p")],
)
def test_a_configuration_and_queues_over_time(
    tmp_path: Path, queue: str, code: int, says: str
) -> None:
    given = timed(tmp_path, "name,submit_s,duration_s,gpus,queue", "a,0,10,1,q", "b,1,3,1,q")
    config, queues = tmp_path / "scheduler.yaml", tmp_path / "queues.yaml"
    config.write_text(
        "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
        "  - name: proportion\n"
    )
    queues.write_text(f"queues:\n- {{name: {queue}, weight: 2}}\n")
    more = ["--policy", str(config), "--queues", str(queues), "--json"]
    result = CliRunner().invoke(app, [*given, *more])
    assert result.exit_code == code
    assert says in result.output


@pytest.mark.parametrize(
    ("times", "values", "means"),
    [
        ((10.0, 250.0), (4.0, 0.0), [4.0] * 240),
        ((0.0, 120.0, 240.0), (1.0, 3.0, 9.0), [1.0] * 120 + [3.0] * 120),
        ((0.0, 0.5, 240.0), (2.0, 0.0, 0.0), [1.0] + [0.0] * 239),
        ((5.0,), (2.0,), [2.0]),
        ((), (), []),
    ],
)
def test_lines_over_time_are_means_of_intervals(
    times: tuple[float, ...], values: tuple[float, ...], means: list[float]
) -> None:
    curve = interval_means(times, values)
    assert curve.y == pytest.approx(means)
    assert len(curve.x) == len(means)


def test_pods_that_never_ran_are_left_out_of_time(tmp_path: Path) -> None:
    given = timed(
        tmp_path,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time",
        "a,1000,1,1,1000,0,10,0",
        "b,1000,1,1,1000,5,,",
    )
    result = CliRunner().invoke(app, [*given, "--policy", "fifo", "--json"])
    assert result.exit_code == 0, result.output
    assert "1 of 2 jobs lack a submission time or a run time and are left out" in result.stderr
    assert json.loads(result.stdout)["jobs"] == 1


def test_the_benchmark_grows(tmp_path: Path) -> None:
    ticks = iter(range(10_000_000))
    rows = run_benchmark(lambda: float(next(ticks)), TRACES, parts=(40, 20), days=((100, 6),))
    arrivals = [row for row in rows if row["measure"] == "arrivals, fgd"]
    assert [row["nodes"] for row in arrivals] == [31, 61]
    assert arrivals[0]["tasks"] < arrivals[1]["tasks"]
    assert rows[-1]["measure"] == "synthetic day"
    assert len(run_benchmark(lambda: float(next(ticks)), tmp_path, days=())) == 0


def test_nodes_without_gpus_are_no_experiment() -> None:
    node = TraceNode(name="n", cpu_milli=1000, memory_mib=10)
    workload = draw_workload([node], [TraceJob(name="j", cpu_milli=1)], inflate=1.0, seed=1)
    assert workload.arrivals == (Shape(1),)
    with pytest.raises(ValueError, match="have no GPU"):
        run_arrivals(workload, "fgd", seed=1)
