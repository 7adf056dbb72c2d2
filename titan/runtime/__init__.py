"""How does a framework call a package? Arrays, their checks, launchers, a choice among packages."""
