"""Write docs/parts.md from the registries: `python studies/parts_page.py > docs/parts.md`."""

from dcs import evaluation, masking, models, noise, objectives  # noqa: F401  (noise registers its views)

TITLES = {
    "Objectives": (
        objectives.OBJECTIVES,
        "`--objective NAME`; options as `--set 'objective_options={...}'`.",
    ),
    "Views": (masking.VIEWS, "`--view NAME`; options as `--set 'masking={\"kind\": NAME, ...}'`."),
    "Networks": (models.NETWORKS, "`--network NAME`; options as `--set 'network_options={...}'`."),
    "Protocols": (evaluation.PROTOCOLS, "`dcs evaluate RUN --protocol NAME`; options as `--set NAME=VALUE`."),
}

print("# Parts\n")
print("Made from the registries by `python studies/parts_page.py > docs/parts.md`; a test holds it to them.")
print("[CONTRIBUTING.md](../CONTRIBUTING.md) shows how to add one of each.")
for title, (registry, usage) in TITLES.items():
    print(f"\n## {title}\n\n{usage}\n\n{registry.table()}")
    print("\n".join(entry.reference() for entry in registry.values()))
