# SPDX-License-Identifier: Apache-2.0
"""How much RAM per node does a job need before the file system is read only once?

    python examples/plan_job.py [DATASET]

Plans 30 epochs on 8 ranks with more and more memory, and prints what each step saves. The data set
is a folder of images; without DATASET it is one that does not exist.
"""

import sys

import foreload


def main() -> None:
    if len(sys.argv) > 1:
        dataset = {"dataset": foreload.Index.open(sys.argv[1])}
    else:
        dataset = {"samples": 50_000, "mean_size": "110KiB", "size_sigma": "50KiB"}
    total = foreload.plan(**dataset).dataset_bytes
    print(f"data set: {foreload.format_bytes(total)}")
    print(f"{'memory per node':>16} {'kept':>7} {'from source':>12} {'of the least':>13}")
    for percent in (0, 25, 50, 75, 100):
        memory = total * percent // 100  # one node with eight GPUs
        plan = foreload.plan(**dataset, ranks=8, ranks_per_node=8, epochs=30, memory=f"{memory}B")
        print(
            f"{foreload.format_bytes(memory):>16} {plan.coverage:>7.1%} "
            f"{foreload.format_bytes(plan.source_bytes):>12} "
            f"{plan.source_bytes / plan.source_bytes_lower_bound:>12.4f}x"
        )


if __name__ == "__main__":
    main()
