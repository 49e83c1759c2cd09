"""Beamline's programs, called with token ids."""

import json
import os
import subprocess
import tempfile


class Beamline:
    """`folder` holds beamline-bench and model_probe; `models` the checkpoints."""

    def __init__(self, folder, models, device):
        self.folder, self.models, self.device = folder, models, device

    def bench(self, name, task, inputs, dtype, **options):
        """The line that beamline-bench prints; `options` are its flags, True for one without a value."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(row) + "\n" for row in inputs)
            file.flush()
            command = [os.path.join(self.folder, "beamline-bench"), "--models", self.models, "--model", name,
                       "--task", task, "--dtype", dtype, "--device", self.device, "--input", file.name]
            for key, value in options.items():
                command.append("--" + key.replace("_", "-"))
                if value is not True:
                    command.append(str(value))
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def probe(self, name, rows, dtype, chunk=1 << 20):
        """What model_probe writes: float32 values, one row a token."""
        import numpy

        with tempfile.TemporaryDirectory() as folder:
            rows_path, out_path = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "values")
            with open(rows_path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            command = [os.path.join(self.folder, "model_probe"), "--folder", os.path.join(self.models, name),
                       "--input", rows_path, "--output", out_path, "--dtype", dtype, "--chunk", str(chunk)]
            environment = dict(os.environ, BEAMLINE_TEST_DEVICE=self.device)
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
            values = numpy.fromfile(out_path, dtype=numpy.float32)
        return values.reshape(sum(len(row["tokens"]) for row in rows), -1)
