#!/usr/bin/env python3
"""Puts programs, the shared libraries that they load and nothing else into a folder: the root of an image without a shell
and without a package manager.

Beside them: what says which packages of the distribution the libraries are from, in three forms. `var/lib/dpkg/status.d`
for scanners of images, `usr/share/doc/PACKAGE/copyright` with their licences, and an SPDX document,
`usr/share/doc/beamline/sbom.spdx.json`.

usage: collect_runtime.py --out FOLDER --version VERSION --licence FILE PROGRAM[=PATH] ...
  PROGRAM[=PATH]  a program or a module that a program opens, and where it goes; default /usr/bin/NAME
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

USER_ID = 65532  # nobody's in Debian; what images without root commonly take
FROM_HOST = {"linux-vdso.so.1", "libcuda.so.1"}  # the kernel's, and the driver's that a container gets from its host


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def libraries(program):
    """Paths of what the dynamic linker loads with the program, itself included."""
    found = []
    for line in output("ldd", program).splitlines():
        match = re.match(r"\s*(\S+)(?: => (.+?))?(?: \(0x[0-9a-f]+\))?$", line)
        name, path = match.groups()
        if os.path.basename(name) in FROM_HOST:
            continue
        path = path or name
        if not os.path.isabs(path):
            raise SystemExit(f"collect_runtime: {program} needs {name}, which is {path}")
        found.append(path)
    return found


def packages_of(paths):
    """The packages that have the files. dpkg knows those of /usr/lib by the name that their package gave them, in /lib too."""
    names = {path: (os.path.realpath(path), os.path.realpath(path).removeprefix("/usr"), path) for path in paths}
    done = subprocess.run(["dpkg-query", "-S", *{name for all_names in names.values() for name in all_names}], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)  # names that no package knows make it fail
    owners = {}
    for line in done.stdout.splitlines():
        package, _, name = line.partition(": ")
        owners[name] = package.split(",")[0]
    found = set()
    for path, all_names in names.items():
        package = next((owners[name] for name in all_names if name in owners), None)
        if package is None:
            raise SystemExit(f"collect_runtime: {path} is of no package")
        found.add(package)
    return sorted(found)


def fields_of(package):
    names = ("Package", "Version", "Architecture", "source:Package", "source:Version", "Maintainer", "Homepage")
    text = output("dpkg-query", "-W", "-f", "\t".join(f"${{{name}}}" for name in names), package)
    return dict(zip(names, text.split("\t")))


def licences_in(copyright_file):
    """Names of licences in a machine-readable copyright file; none in one that is not."""
    with open(copyright_file, encoding="utf-8", errors="replace") as file:
        names = re.findall(r"^License:[ \t]*(\S.*)$", file.read(), re.M)
    return sorted({" ".join(name.split()) for name in names})


class Root:
    """The folder that becomes the image's root. Debian's merged /usr."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("bin", "lib", "lib64"):
            os.makedirs(self.path(f"/usr/{name}"), exist_ok=True)
            os.symlink(f"usr/{name}", self.path(f"/{name}"))

    def path(self, absolute):
        return os.path.join(self.folder, absolute.lstrip("/"))

    def copy(self, source, absolute, mode=0o644):
        target = self.path(absolute)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
        os.chmod(target, mode)

    def write(self, absolute, text):
        os.makedirs(os.path.dirname(self.path(absolute)), exist_ok=True)
        with open(self.path(absolute), "w", encoding="utf-8") as file:
            file.write(text)

    def make_folder(self, absolute, mode, owner=0):
        os.makedirs(self.path(absolute), exist_ok=True)
        os.chmod(self.path(absolute), mode)
        if owner and os.geteuid() == 0:
            os.chown(self.path(absolute), owner, owner)

    def copy_library(self, path):
        """Under the name that the linker looks for, in its own folder."""
        name = os.path.basename(path)
        folder = os.path.realpath(os.path.dirname(path))
        if name.startswith("ld-linux"):  # programs name it by a path of their own
            folder = os.path.dirname(os.path.realpath(path))
            link = self.path(f"/usr/lib64/{name}")
            if not os.path.lexists(link):
                os.symlink(os.path.relpath(f"{folder}/{name}", "/usr/lib64"), link)
        self.copy(path, f"{folder}/{name}", 0o755)


def add_package(root, package):
    """Its entry and licence; returns its part of the SPDX document."""
    fields = fields_of(package)
    name = fields["Package"]
    notice = f"/usr/share/doc/{name}/copyright"
    root.copy(notice, notice)
    root.write(f"/var/lib/dpkg/status.d/{name}", output("dpkg-query", "-s", package))
    release = os_release()
    locator = (f"pkg:deb/{release['ID']}/{name}@{fields['Version'].replace(':', '%3A').replace('+', '%2B')}"
               f"?arch={fields['Architecture']}&distro={release['ID']}-{release.get('VERSION_ID', 'unstable')}")
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": fields["Version"],
        "supplier": f"Person: {fields['Maintainer']}",
        "sourceInfo": f"built from {fields['source:Package']} {fields['source:Version']}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "licenseComments": f"{notice}: {'; '.join(licences_in(notice)) or 'as it says'}",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}],
    }


def os_release():
    with open("/etc/os-release", encoding="utf-8") as file:
        return dict(re.findall(r'^(\w+)="?(.*?)"?$', file.read(), re.M))


def spdx(version, packages):
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp())
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {"SPDXID": "SPDXRef-beamline", "name": "beamline", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    digest = hashlib.sha256(json.dumps([own] + packages, sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"beamline-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/beamline-{version}-{digest[:32]}",
        "creationInfo": {"created": created, "creators": ["Tool: collect_runtime.py"]},
        "packages": [own] + packages,
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-beamline"}]
        + [{"spdxElementId": "SPDXRef-beamline", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": one["SPDXID"]} for one in packages],
    }


def add_system(root):
    """What a program expects of a system: users, names, a folder for temporary files; and where volumes go."""
    root.write("/etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\nbeamline:x:{USER_ID}:{USER_ID}:beamline:/nonexistent:/sbin/nologin\n")
    root.write("/etc/group", f"root:x:0:\nbeamline:x:{USER_ID}:\n")
    root.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    root.copy("/etc/os-release", "/etc/os-release")
    root.make_folder("/tmp", 0o1777)
    for place in ("/dev", "/proc", "/sys"):  # the runtime mounts them, on a root that may be read-only
        root.make_folder(place, 0o755)
    root.make_folder("/models", 0o755)
    root.make_folder("/cache", 0o755, USER_ID)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--licence", required=True)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM[=PATH]")
    options = parser.parse_args()
    if os.path.lexists(options.out):
        sys.exit(f"collect_runtime: --out is {options.out}; accepted: a folder that is not there yet")
    root = Root(options.out)
    needed = set()
    for program in options.programs:
        source, _, target = program.partition("=")
        needed.update(libraries(source))
        root.copy(source, target or f"/usr/bin/{os.path.basename(source)}", 0o755)
    for path in sorted(needed):
        root.copy_library(path)
    packages = [add_package(root, package) for package in packages_of(needed)]
    add_system(root)
    shutil.copytree("/usr/share/common-licenses", root.path("/usr/share/common-licenses"), symlinks=True)  # notices refer to them
    root.copy(options.licence, "/usr/share/doc/beamline/copyright")
    root.write("/usr/share/doc/beamline/sbom.spdx.json", json.dumps(spdx(options.version, packages), indent=1) + "\n")
    print(f"{len(options.programs)} programs, {len(needed)} libraries of {len(packages)} packages")


if __name__ == "__main__":
    main()
