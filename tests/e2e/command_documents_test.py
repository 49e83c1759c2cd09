"""What the programs tell of their own command lines: completion in real shells, manual pages, and help whose examples
run.

Shells and mandoc that are not installed are skipped, which the output says; bash is always there.

usage: command_documents_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from demo_server import Server

PROGRAMS = {"beamline": "client/cli", "beamline-server": "server", "beamline-loadtest": "loadtest"}
COMPLETION = {"beamline": ["completion"], "beamline-server": ["--completion"], "beamline-loadtest": ["completion"]}
TIMEOUT_S = 120

# The words before the cursor, and what completes the last one: all of it, or some of it.
COMPLETIONS = [
    (["beamline", "enc"], {"encode"}),
    (["beamline", "--output", ""], {"table", "json", "csv"}),
    (["beamline", "models", "--output", "c"], {"csv"}),
    (["beamline", "--address", "generate", "unl"], {"unload"}),
    (["beamline", "generate", "--early-stopping", "e"], {"eager", "exhaustive"}),
    (["beamline", "generate", "--beam"], {"--beam", "--beam-groups"}),
    (["beamline", "completion", "z"], {"zsh"}),
    (["beamline", "top", "--int"], {"--interval"}),
    (["beamline", "generate", "--file", "pro"], {"prompts with a space.txt", "prompts.txt"}),
    (["beamline-server", "--log-level", "w"], {"warn"}),
    (["beamline-server", "--gpu-memory"], {"--gpu-memory-fraction", "--gpu-memory-bytes"}),
    (["beamline-loadtest", "com"], {"compare", "completion"}),
    (["beamline-loadtest", "run", "--verify"], {"--verify", "--verify-tolerance"}),
]

options = None  # of the command line


def path_of(program):
    return os.path.join(options.build, PROGRAMS[program], program)


def run(command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT_S, check=False, **more)


def output_of(test, *command, **more):
    done = run(list(command), **more)
    test.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
    test.assertEqual(done.stderr, "", command)
    return done.stdout


def present():
    return [program for program in PROGRAMS if os.path.exists(path_of(program))]


def commands_of(help_text):
    section = re.search(r"^Commands:\n((?:  .*\n)+)", help_text, re.M)
    return re.findall(r"^  ([\w-]+)", section.group(1), re.M) if section else []


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def script(self, program, shell):
        path = os.path.join(self.folder, f"{program}.{shell}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(output_of(self, path_of(program), *COMPLETION[program], shell))
        return path


class Completion(Folder):
    def setUp(self):
        super().setUp()
        self.work = os.path.join(self.folder, "work")
        os.mkdir(self.work)
        for name in ("prompts.txt", "prompts with a space.txt", "other"):
            with open(os.path.join(self.work, name), "w", encoding="utf-8"):
                pass

    def bash(self, words, script):
        """What bash offers, as it asks: the function that `complete` names, with the words in COMP_WORDS."""
        quoted = " ".join(shlex.quote(word) for word in words)
        text = (f"source {shlex.quote(script)}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMPREPLY=()\n"
                f"$(complete -p {words[0]} | sed 's/.*-F \\(\\S*\\) .*/\\1/'); "
                '((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"; true')
        return output_of(self, "bash", "--norc", "-c", text, cwd=self.work).splitlines()

    def test_bash(self):
        scripts = {program: self.script(program, "bash") for program in present()}
        for words, wanted in COMPLETIONS:
            if words[0] in scripts:
                self.assertEqual(set(self.bash(words, scripts[words[0]])), wanted, words)
        script = scripts["beamline"]
        # Bash takes what stands around '=' for words of their own.
        self.assertEqual(set(self.bash(["beamline", "--output", "="], script)), {"table", "json", "csv"})
        self.assertEqual(self.bash(["beamline", "--output", "=", "j"], script), ["json"])
        self.assertEqual(self.bash(["beamline", "--output", "=", "json", "mod"], script), ["models"])
        self.assertEqual(self.bash(["beamline", "generate", "--", "--be"], script), [])
        self.assertEqual(self.bash(["beamline", "generate", "--beam", ""], script), [])

    def test_bash_knows_every_option_that_help_shows(self):
        for program in present():
            script = self.script(program, "bash")
            general = output_of(self, path_of(program), "--help")
            for command in [None, *commands_of(general)]:
                words = [program] + ([command] if command else [])
                shown = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", output_of(self, path_of(program), *words[1:], "--help"), re.M))
                self.assertIn("--help", shown)
                self.assertLessEqual(shown, set(self.bash([*words, "--"], script)), words)

    def with_server(self):
        """The environment of a shell that finds the programs, and a server with two models, one of a name that starts as the other."""
        for program in present():
            os.symlink(path_of(program), os.path.join(self.folder, program))
        os.environ["PATH"] = os.path.dirname(path_of("beamline-server")) + os.pathsep + os.environ["PATH"]
        folder = os.path.join(options.source, "models/embed-en")
        server = Server(self.folder, "--model", f"embed-en={folder},device=cpu", "--model", f"embed-de={folder},device=cpu", "--model",
                        f"other={folder},device=cpu")
        self.addCleanup(server.stop)
        path = self.folder + os.pathsep + os.environ["PATH"]
        return server, {**os.environ, "PATH": path, "HOME": self.folder, "BEAMLINE_ADDRESS": "127.0.0.1:1"}

    def test_models_are_those_of_the_server(self):
        """In bash and fish, of the server that the line names; a server that is not there is nothing, soon."""
        server, environment = self.with_server()
        lines = [(["beamline", "--address", server.address, "encode", "--model", "emb"], {"embed-en", "embed-de"}),
                 (["beamline", "encode", f"--address={server.address}", "--model", "oth"], {"other"}),
                 (["beamline", "--address", server.address, "models", ""], {"embed-en", "embed-de", "other"}),
                 (["beamline", "encode", "--model", "emb"], set())]
        if "beamline-loadtest" in present():
            lines.append((["beamline-loadtest", "run", "--target", server.address, "--model", "emb"], {"embed-en", "embed-de"}))
        shells = [shell for shell in ("bash", "fish") if shutil.which(shell)]
        for words, wanted in lines:
            for shell in shells:
                begin = time.monotonic()
                offered = self.offered(shell, words, environment)
                self.assertEqual(offered, wanted, (shell, words))
                self.assertLess(time.monotonic() - begin, 15)

    def offered(self, shell, words, environment):
        script = shlex.quote(self.script(words[0], shell))
        line = " ".join(shlex.quote(word) if word else "" for word in words)
        if shell == "fish":
            text = f"source {script}; complete -C{shlex.quote(line)}"
            return {entry.split("\t")[0] for entry in output_of(self, "fish", "--no-config", "-c", text, cwd=self.work, env=environment).splitlines()}
        text = (f"source {script}; COMP_WORDS=({line}{'' if words[-1] else chr(39) * 2}); COMP_LINE={shlex.quote(line)}; COMP_CWORD={len(words) - 1}; "
                f"COMPREPLY=()\n_{words[0].replace('-', '_')}\n"
                '((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"; true')
        return set(output_of(self, "bash", "--norc", "-c", text, cwd=self.work, env=environment).splitlines())

    def test_names_of_a_server_are_no_code(self):
        """What a server calls its models is quoted, whatever it is."""
        program = os.path.join(self.folder, "beamline")
        script = self.script("beamline", "bash")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nprintf '%s\\n' 'a$(touch made)' 'a;touch made' 'a*'\n")
        os.chmod(program, 0o755)
        text = (f"source {script}; COMP_WORDS=(beamline encode --model a); COMP_CWORD=3; COMPREPLY=(); _beamline\n"
                'printf "%s\\n" "${COMPREPLY[@]}"')
        environment = {**os.environ, "PATH": self.folder + os.pathsep + os.environ["PATH"]}
        said = output_of(self, "bash", "--norc", "-c", text, cwd=self.work, env=environment)
        self.assertEqual(said.splitlines(), ["a\\$\\(touch\\ made\\)", "a\\;touch\\ made", "a\\*"])
        self.assertNotIn("made", os.listdir(self.work))

    @needs("fish")
    def test_fish(self):
        for program in present():
            script = self.script(program, "fish")
            self.assertEqual(output_of(self, "fish", "--no-config", "-n", script), "")
            for words, wanted in COMPLETIONS:
                if words[0] == program:
                    line = " ".join(shlex.quote(word) if word else "" for word in words)
                    offered = output_of(self, "fish", "--no-config", "-c", f"source {shlex.quote(script)}; complete -C{shlex.quote(line)}",
                                        cwd=self.work, env={**os.environ, "HOME": self.folder})
                    self.assertEqual({entry.split("\t")[0].replace("\\ ", " ") for entry in offered.splitlines()}, wanted, words)

    @needs("zsh")
    def test_zsh(self):
        for program in present():
            script = self.script(program, "zsh")
            self.assertEqual(output_of(self, "zsh", "-f", "-n", script), "")
            # Sourced after compinit, it is in charge; found in the fpath, too.
            begin = "autoload -Uz compinit; "
            self.assertEqual(output_of(self, "zsh", "-f", "-c", f"{begin}compinit -D -u; source {script}; print -r -- $_comps[{program}]").strip(),
                             "_" + program.replace("-", "_"))
            os.rename(script, os.path.join(self.folder, "_" + program))
            self.assertEqual(output_of(self, "zsh", "-f", "-c", f"fpath=({self.folder} $fpath); {begin}compinit -D -u; print -r -- $_comps[{program}]").strip(),
                             "_" + program)

    @needs("zsh")
    def test_zsh_offers_what_the_others_do(self):
        """Through zsh's own pseudo terminal: what a line becomes when it is completed."""
        server, environment = self.with_server()
        for program, line, wanted in (("beamline", f"beamline --address {server.address} encode --model oth",
                                       f"beamline --address {server.address} encode --model other"),
                                      ("beamline", "beamline encode --model oth", "beamline encode --model oth"),
                                      ("beamline", "beamline enc", "beamline encode"),
                                      ("beamline", "beamline --output js", "beamline --output json"),
                                      ("beamline", "beamline models --outp", "beamline models --output="),
                                      ("beamline", "beamline generate --early-stopping heu", "beamline generate --early-stopping heuristic"),
                                      ("beamline-server", "beamline-server --log-level wa", "beamline-server --log-level warn")):
            script = self.script(program, "zsh")
            text = (f"zmodload zsh/zpty\nzpty shell zsh -f -i\n"
                    f"zpty -w shell 'PS1=; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -D -u; source {script}; "
                    "show() { print -r -- \"<<$BUFFER>>\" >>" + self.folder + "/shown; zle .kill-whole-line }; zle -N show; bindkey \"^X\" show; print ready'\n"
                    "zpty -r shell line '*ready*ready*'\n"
                    f"zpty -w -n shell '{line}'$'\\t'$'\\x18'\n"
                    f"for i in {{1..200}}; do [[ -s {self.folder}/shown ]] && break; zpty -r -t shell line; sleep 0.05; done\n"
                    "zpty -d shell\n")
            with open(os.path.join(self.folder, "shown"), "w", encoding="utf-8"):
                pass
            output = run(["zsh", "-f", "-c", text], cwd=self.work, env=environment)
            with open(os.path.join(self.folder, "shown"), encoding="utf-8") as file:
                self.assertEqual(file.read().strip().rstrip(">").rstrip(), f"<<{wanted}", f"{line}: {output}")


class ManPages(Folder):
    def test_pages_have_every_command_and_option(self):
        for program in present():
            page = output_of(self, path_of(program), "--man-page")
            self.assertRegex(page, rf'^\.TH {program.upper().replace("-", chr(92) * 2 + "-")} 1 ')
            for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f"\n.SH {heading}\n", page)
            plain = page.replace("\\-", "-")
            general = output_of(self, path_of(program), "--help")
            for command in [None, *commands_of(general)]:
                if command:
                    self.assertIn(f".SS {program} {command}", plain)
                shown = output_of(self, path_of(program), *([command] if command else []), "--help")
                for name in re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.M):
                    self.assertIn(name, plain, f"{program} {command}")

    @needs("mandoc")
    def test_mandoc_finds_nothing_wrong(self):
        for program in present():
            page = output_of(self, path_of(program), "--man-page")
            path = os.path.join(self.folder, f"{program}.1")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
            # There is no date: pages of the same sources are the same. And lines are as long as they are.
            faults = [line for line in run(["mandoc", "-Tlint", path]).stdout.splitlines()
                      if "missing date" not in line and "input text line longer" not in line]
            self.assertEqual(faults, [])
            self.assertIn("EXIT STATUS", re.sub(".\b", "", output_of(self, "mandoc", "-Tascii", path)))


class Help(Folder):
    """Every command's help fits a terminal, and shows examples that run as they stand there."""

    def examples(self, program):
        general = output_of(self, path_of(program), "--help")
        for command in [None, *commands_of(general)]:
            text = output_of(self, path_of(program), *([command] if command else []), "--help")
            told, _, shown = text.partition("\nExamples:\n")
            for line in told.splitlines():
                self.assertLessEqual(len(line), 80, line)
            found = re.findall(r"^  (.+)$", shown, re.M)
            self.assertTrue(found, f"{program} {command} has no example")
            yield from found

    def bash(self, command):
        environment = dict(os.environ)
        environment["PATH"] = self.folder + os.pathsep + environment["PATH"]
        environment.update(self.environment)
        return run(["bash", "-c", command], cwd=self.folder, env=environment)

    def setUp(self):
        super().setUp()
        self.environment = {}
        for program in present():
            os.symlink(path_of(program), os.path.join(self.folder, program))
        with open(os.path.join(self.folder, "prompts.txt"), "w", encoding="utf-8") as file:
            file.write("Cannot open the file.\nSave changes before closing?\n")
        with open(os.path.join(self.folder, "documents.txt"), "w", encoding="utf-8") as file:
            file.write("a mail reader\na web server\n")
        with open(os.path.join(self.folder, "sentences.txt"), "w", encoding="utf-8") as file:
            file.write("who reads mail\nthe dog\n")
        os.environ["PATH"] = os.path.dirname(path_of("beamline-server")) + os.pathsep + os.environ["PATH"]

    def test_of_the_client(self):
        classifiers = os.path.join(options.source, "tests/golden/classifiers")
        server = Server(self.folder, "--admin-listen", "127.0.0.1:0", "--model-root", os.path.join(options.source, "models"),
                        "--model", f"rank={classifiers}/bert-2x10-rank,device=cpu",
                        "--model", f"tokens={classifiers}/bert-3x8-tokens,device=cpu",
                        *(word for name in ("write-en", "embed-en", "translate-en-de")
                          for word in ("--model", f"{name}={options.source}/models/{name},device=cpu,replicas=2")))
        self.addCleanup(server.stop)
        environment = {"BEAMLINE_ADDRESS": server.address, "BEAMLINE_METRICS": server.metrics_url}
        # An encoder too, and the examples of encode name no model.
        masks = Server(self.folder, "--model", f"masks={classifiers}/bert-3x8-masks,device=cpu")
        self.addCleanup(masks.stop)
        ran = 0
        for example in self.examples("beamline"):
            if "completion" in example and ("fish" in example or "zsh" in example):
                continue  # completion's own test; sourced by another shell
            example = example.replace("127.0.0.1:50053", server.admin_address)
            if re.search(r"\bbeamline top\s*$", example):
                example += " --once"  # else it does not end
            fills = "beamline fill-mask" in example
            self.environment = {"BEAMLINE_ADDRESS": masks.address} if fills else environment
            done = self.bash(example)
            self.assertEqual(done.returncode, 0, f"{example}: {done.stdout}{done.stderr}")
            ran += 1
        self.assertGreater(ran, 20)

    def test_of_the_server(self):
        with open(os.path.join(self.folder, "server.yaml"), "w", encoding="utf-8") as file:
            file.write("log_level: info\n")
        for example in self.examples("beamline-server"):
            if "--health" in example:
                continue  # asks a server that is not there; its own test does
            done = self.bash(example.replace("/etc/beamline/server.yaml", "server.yaml") + " --print-config")
            self.assertEqual(done.returncode, 0, f"{example}: {done.stderr}")

    def test_of_the_load_tester(self):
        if "beamline-loadtest" not in present():
            self.skipTest("beamline-loadtest is not built")
        for example in self.examples("beamline-loadtest"):
            if not example.startswith("beamline-loadtest run"):
                continue  # documents_test.py runs comparisons, of results
            # Refused for what is not there, after everything on the line was read.
            done = self.bash(example + " --json /nowhere/result.json")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--json", done.stderr, example)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
