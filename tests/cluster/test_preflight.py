from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsearch.cluster.preflight import (
    Node,
    check_share,
    concurrent_trials,
    groups_with_room,
    hosts_of,
    plan_groups,
)
from hsearch.errors import ConfigError

CPU_NODE, GPU_NODE = Node(cpus=16), Node(cpus=32, gpus=4)


def test_one_cpu_per_group_on_a_machine_without_gpu():
    plan = plan_groups([Node(cpus=2)], workers=1)
    assert (plan.groups, plan.cpus, plan.gpus) == (2, 1, 0)
    assert plan.arithmetic == (
        "1 node with 2 CPUs: room for 2 workers of 1 CPU; 1 per fold: 2 fold trainings at once"
    )


def test_one_gpu_per_worker_with_its_share_of_cpus():
    plan = plan_groups([CPU_NODE, GPU_NODE, GPU_NODE], workers=2)
    assert (plan.groups, plan.cpus, plan.gpus) == (4, 8, 1)
    assert "room for 8 workers of 8 CPUs and 1 GPU" in plan.arithmetic


def test_a_limit_is_told():
    assert "(of 16 possible)" in plan_groups([CPU_NODE], 1, limit=3).arithmetic


@pytest.mark.parametrize(
    ("nodes", "workers", "cpus"), [([Node(2)], 3, None), ([Node(2), Node(2)], 1, 3), ([], 1, None)]
)
def test_what_can_never_be_placed_is_refused_with_the_arithmetic(nodes, workers, cpus):
    with pytest.raises(ConfigError, match=r"CPUs: room for \d workers.*--workers-per-fold"):
        plan_groups(nodes, workers, cpus)


nodes = st.lists(st.builds(Node, cpus=st.integers(1, 64), gpus=st.integers(0, 8)), min_size=1)


@given(nodes, st.integers(1, 4), st.integers(1, 4))
def test_what_is_planned_fits_node_by_node(nodes, workers, cpus):
    try:
        plan = plan_groups(nodes, workers, cpus)
    except ConfigError:
        return
    room = sum(
        min(n.cpus // plan.cpus, n.gpus if plan.gpus else n.cpus // plan.cpus) for n in nodes
    )
    assert 1 <= plan.groups * plan.workers <= room
    assert room - plan.groups * plan.workers < workers


@given(st.integers(1, 100), st.sampled_from([1, 4]))
def test_trials_keep_all_groups_busy_and_one_group_has_one_trial(groups, ahead):
    trials = concurrent_trials(groups, ahead)
    assert trials * ahead >= groups
    assert concurrent_trials(1, ahead) == 1


def test_from_four_groups_on_a_fold_waits_for_the_group_that_comes_back():
    assert [concurrent_trials(groups, 1) for groups in (2, 3, 4, 20, 512)] == [2, 3, 5, 21, 538]


def test_the_shape_of_a_group_stays_when_the_last_gpu_is_lost_and_comes_back():
    plan = plan_groups([Node(cpus=8), Node(cpus=4, gpus=1)], workers=1)
    assert groups_with_room([Node(cpus=8)], plan) == 0
    assert groups_with_room([Node(cpus=8), GPU_NODE], plan) == 4
    assert groups_with_room([Node(cpus=8), GPU_NODE], plan, limit=2) == 2


def test_memory_bounds_the_number_of_groups():
    plan = plan_groups([Node(cpus=64, memory=16e9)], workers=1)
    assert plan.groups == 10
    assert "workers of 1 CPU and 1.5 GB" in plan.arithmetic


HEAD = Node(cpus=8, gpus=1, is_head=True)


def test_the_head_gets_jobs_only_where_no_other_has_room():
    plan = plan_groups([HEAD, GPU_NODE], workers=1)
    assert plan.groups == 4
    assert "1 node beside the head with 32 CPUs and 4 GPUs" in plan.arithmetic
    assert groups_with_room([HEAD], plan) == 1
    assert hosts_of([HEAD, CPU_NODE], plan) == [HEAD, CPU_NODE]
    assert hosts_of([HEAD, GPU_NODE], plan) == [GPU_NODE]


def test_a_node_that_has_announced_its_end_gets_none():
    plan = plan_groups([HEAD, GPU_NODE], workers=1)
    ending = Node(cpus=32, gpus=4, is_leaving=True)
    assert hosts_of([HEAD, ending, GPU_NODE], plan) == [GPU_NODE]
    assert hosts_of([HEAD, ending], plan) == [HEAD]


def test_small_networks_share_a_gpu_and_its_cpus():
    plan = plan_groups([HEAD, GPU_NODE], workers=1, gpus=0.25)
    assert (plan.groups, plan.cpus, plan.resources) == (16, 2, {"CPU": 2, "GPU": 0.25})
    assert "room for 16 workers of 2 CPUs and 0.25 GPU" in plan.arithmetic
    assert plan_groups([Node(cpus=16, gpus=2)], workers=1, gpus=0.4).groups == 4
    assert plan_groups([Node(cpus=16, gpus=3)], workers=1, gpus=2).groups == 1


def test_a_cluster_with_gpus_can_be_used_without_them():
    plan = plan_groups([HEAD, GPU_NODE], workers=1, gpus=0)
    assert (plan.groups, plan.resources) == (32, {"CPU": 1})


@pytest.mark.parametrize(
    ("gpus", "workers"), [(-1.0, 1), (1.5, 1), (1e-9, 1), (inf, 1), (nan, 1), (0.5, 2)]
)
def test_shares_that_no_worker_could_have_are_refused(gpus, workers):
    with pytest.raises(ConfigError, match=r"--gpus-per-worker.*but got"):
        check_share(gpus, workers)
    check_share(2.0, workers)
    check_share(0.0, workers)


def test_a_gpu_that_nobody_has_is_asked_for_without_inventing_its_cpus():
    with pytest.raises(ConfigError, match="needs 1 worker of 1 CPU and 1 GPU at once"):
        plan_groups([Node(cpus=2)], workers=1, gpus=1)
