"""The arrival experiment, its published table, and `phalanx simulate` over it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from phalanx.cli.commands import app
from phalanx.policies.fragmentation.shape import Shape
from phalanx.sim.arrival.experiment import ArrivalRun, run_arrivals
from phalanx.sim.arrival.reproduce import MEASURES, PUBLISHED, differences, table
from phalanx.sim.arrival.synthetic import FORMS, synthetic_jobs
from phalanx.sim.arrival.workload import draw_workload
from phalanx.sim.traces.reading import read_jobs, read_nodes
from phalanx.sim.traces.records import TraceJob, TraceNode

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
    """Two nodes and six pods, as options of the command."""
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


def test_scarcity_allocates_more_than_fgd_and_firstfit() -> None:
    ours, *others = (run(policy, "multigpu30") for policy in ("scarcity", "fgd", "firstfit"))
    reached = ours.at(ours.alloc_pct, 100)
    assert reached is not None
    assert all(reached > (other.at(other.alloc_pct, 100) or 100) for other in others)


@pytest.mark.parametrize("form", FORMS[1::5])
def test_synthetic_traces_have_their_property(form: str) -> None:
    nodes, default = trace()
    jobs = synthetic_jobs(form, nodes, default, seed=3)
    percent = int("".join(c for c in form if c.isdigit()))
    gpu = [job for job in jobs if job.num_gpu]
    if form.startswith("cpu"):
        ratio = (len(jobs) - len(gpu)) / len(gpu)
        expected = percent / 100 * 1088 / 7064
        assert ratio == pytest.approx(expected, rel=0.15)
    else:
        has = {
            "gpushare": [job.shape.is_shared for job in gpu],
            "gpuspec": [bool(job.models) for job in gpu],
            "multigpu": [job.num_gpu > 1 for job in gpu],
        }[form.rstrip("0123456789")]
        assert 100 * fmean(has) == pytest.approx(percent, abs=4)


def test_differences_and_table() -> None:
    figures = {p: [[c + 0.5, c + 0.5] for c in cells] for p, cells in PUBLISHED.items()}
    assert differences(figures) == pytest.approx([0.5] * 24)
    text = table(figures | {"firstfit": [[94.4, 94.6]] * 4, "scarcity": [[95.0, 96.0]] * 4})
    assert "| difference | +0.50 |" in text
    assert "95.50 ± 0.71" in text


def test_json_has_the_agreed_names(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*small(tmp_path), "--policy", "FGD", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert set(KEYS) <= set(figures)
    assert (figures["seed"], figures["policy"]) == (42, "FGD")


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
        (["--policy", "best"], "there is no policy 'best'; there are: random, dotprod"),
        (["--policy", "fgd", "--queues", "q.yaml"], "--queues needs --arrival time"),
        (["--policy", "fgd", "--policy", "fgd"], "--policy names one twice"),
        (["--policy", "fifo", "--arrival", "time", "--inflate", "2"], "needs --arrival order"),
        (["--policy", "best", "--arrival", "time"], "there is no policy 'best'; there are: fifo"),
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


def test_jobs_at_their_own_times(tmp_path: Path) -> None:
    nodes, jobs, page = tmp_path / "n.csv", tmp_path / "j.csv", tmp_path / "p.html"
    nodes.write_text("name,cpu_milli,memory_mib,gpus,model\na,8000,100,1,T4\n")
    jobs.write_text("name,submit_s,duration_s,gpus\nj1,0,10,1\nj2,1,10,1\n")
    given = ["simulate", "--nodes", str(nodes), "--pods", str(jobs), "--policy", "fifo"]
    result = CliRunner().invoke(app, [*given, "--arrival", "time", "--json", "--report", str(page)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert (figures["makespan_s"], figures["jct_mean_s"]) == (20.0, 14.5)
    assert "Waiting over time" in page.read_text()


def test_nodes_without_gpus_are_no_experiment() -> None:
    node = TraceNode(name="n", cpu_milli=1000, memory_mib=10)
    workload = draw_workload([node], [TraceJob(name="j", cpu_milli=1)], inflate=1.0, seed=1)
    assert workload.arrivals == (Shape(1),)
    with pytest.raises(ValueError, match="have no GPU"):
        run_arrivals(workload, "fgd", seed=1)
