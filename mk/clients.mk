# laterd beside Debian's beanstalkd, and the clients that people drive beanstalkd with.

.PHONY: diff-beanstalkd clients connections

SECONDS ?= 60
DIFF_ARGS ?=
diff-beanstalkd: all ## random commands to beanstalkd and laterd for SECONDS, answers compared
	$(PYTHON) test/clients/differential.py --seconds $(SECONDS) $(DIFF_ARGS)

clients: all ## beanstalkd's clients from Debian and npm, driving both servers
	$(PYTEST) -q test/black/beanstalk/test_beanstalk_clients.py

CONNECTIONS ?= 15000
connections: all ## hold CONNECTIONS idle clients of beanstalkd, and serve one more
	CONNECTIONS=$(CONNECTIONS) $(PYTEST) -q -rs test/black/beanstalk/test_beanstalk_many.py
