// fivebeans' own tests hold the port 11300 in their text: connections to it go to PORT instead.
'use strict'

const net = require('net')

const connect = net.createConnection
net.createConnection = (port, ...rest) =>
  connect(port === 11300 ? Number(process.env.PORT) : port, ...rest)
