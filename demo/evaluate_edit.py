"""Measure how well held-out edits are made, through a running server or through diffusers."""

from __future__ import annotations

import argparse
from pathlib import Path

from demo.editing.exam import GOAL, evaluate_edits
from demo.editing.sampling import SCALE, STEPS, through_diffusers, through_server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--server", metavar="HOST:PORT", help="a running server over the checkpoint, its gRPC address")
    source.add_argument("--checkpoint", type=Path, default=Path("demo/edit-checkpoint"), help="run with diffusers")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--scale", type=float, default=SCALE)
    parser.add_argument("--out", type=Path, default=Path("demo/run/edit-exam"))
    args = parser.parse_args()
    if args.server:
        generate = through_server(args.server, args.steps, args.scale)
    else:
        generate = through_diffusers(args.checkpoint, args.steps, args.scale)
    report = evaluate_edits(generate)
    report.save(args.out)
    for name, score in report.scores.items():
        goal = f"   goal {GOAL:.0%}" if name == "everything" else ""
        print(f"{name:20} {score:6.1%}{goal}")


if __name__ == "__main__":
    main()
