# Installing: programs, manual pages, a sample configuration, systemd units, completion for bash. DESTDIR for packagers.

BINDIR  := $(DESTDIR)$(PREFIX)/bin
LIBEXEC := $(DESTDIR)$(PREFIX)/libexec/laterd
MANDIR  := $(DESTDIR)$(PREFIX)/share/man
UNITDIR := $(DESTDIR)$(PREFIX)/lib/systemd/system
COMPDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
CONFDIR ?= $(DESTDIR)$(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)/laterd

UNITS   := laterd.service laterd.socket laterd-beanstalk.socket
MANUALS := $(patsubst man/%.scd,$(BUILD)/man/%,$(wildcard man/*.scd))
# Makes the manual pages. Without it an installation is complete but for them.
SCDOC   ?= $(shell command -v scdoc)

.PHONY: man install install-man uninstall

# A recipe that fails half-way leaves no target: the next run would take it for finished.
.DELETE_ON_ERROR:

man: $(MANUALS) ## manual pages, from man/*.scd

$(BUILD)/man/%: man/%.scd
	@mkdir -p $(@D)
	@[ -n "$(SCDOC)" ] || { echo "man pages need scdoc: apt-get install scdoc" >&2; false; }
	$(SCDOC) < $< > $@

# An installed configuration is the operator's: it is not written over. The name beanstalkd gets a
# folder of its own, out of the way of another package's: who wants it puts the folder first in PATH.
install: all $(if $(SCDOC),install-man) ## programs, man pages, sample config and systemd units below PREFIX
	install -D -m 755 -t $(BINDIR) $(BUILD)/laterd $(BUILD)/later
	install -d $(LIBEXEC)
	[ -z "$(PLUGINS)$(JOURNALS)$(MEMBER_PLUGINS)" ] || install -D -m 644 -t $(DESTDIR)$(LIBDIR) $(patsubst %,$(BUILD)/laterd-%.so,$(PLUGINS) $(JOURNALS) $(MEMBER_PLUGINS))
	ln -sfn ../../bin/laterd $(LIBEXEC)/beanstalkd
	[ -e $(CONFDIR)/laterd.conf ] || install -D -m 644 conf/laterd.conf $(CONFDIR)/laterd.conf
	install -D -m 644 conf/later.bash $(COMPDIR)/later
	install -d $(UNITDIR)
	for unit in $(UNITS); do \
	    sed -e 's|@bindir@|$(PREFIX)/bin|g' -e 's|@confdir@|$(CONFDIR:$(DESTDIR)%=%)|g' \
	        conf/$$unit > $(UNITDIR)/$$unit && chmod 644 $(UNITDIR)/$$unit || exit 1; done
	@[ -n "$(SCDOC)" ] || echo "left out: the man pages, which scdoc makes (apt-get install scdoc, then again)"

install-man: $(MANUALS)
	for page in $(MANUALS); do \
	    install -D -m 644 -t $(MANDIR)/man$${page##*.} $$page || exit 1; done

uninstall: ## take away what install put there, but not the configuration
	rm -f $(BINDIR)/laterd $(BINDIR)/later $(COMPDIR)/later $(UNITS:%=$(UNITDIR)/%) $(LIBEXEC)/beanstalkd
	rm -f $(patsubst %,$(DESTDIR)$(LIBDIR)/laterd-%.so,$(ALL_PLUGINS) $(ALL_MEMBER_PLUGINS) journal-mysql)
	[ ! -d $(DESTDIR)$(LIBDIR) ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(LIBDIR)
	[ ! -d $(LIBEXEC) ] || rmdir --ignore-fail-on-non-empty $(LIBEXEC)
	for page in $(notdir $(MANUALS)); do rm -f $(MANDIR)/man$${page##*.}/$$page; done
