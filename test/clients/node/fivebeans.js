// fivebeans: callbacks, several values a callback; and its worker, which handles jobs by type.
'use strict'

const fivebeans = require('fivebeans')
const { host, port, step } = require('./story')

const done = client => (method, ...args) => new Promise((resolve, reject) => {
  client[method](...args, (error, ...values) => {
    if (error) reject(error)
    else resolve(values.length > 1 ? values : values[0])
  })
})

async function connected () {
  const client = new fivebeans.client(host, port) // eslint-disable-line new-cap
  await new Promise((resolve, reject) => {
    client.on('connect', resolve).on('error', reject)
    client.connect()
  })
  return client
}

async function look (ask) {
  await step('peek', () => ask('peek', 1))
  await step('peek none', () => ask('peek', 99))
  await step('peek ready', () => ask('peek_ready'))
  await step('peek delayed', () => ask('peek_delayed'))
  await step('peek buried', () => ask('peek_buried'))
  await step('stats-job', () => ask('stats_job', 2))
  await step('stats-tube', () => ask('stats_tube', 'mail'))
  await step('stats-tube none', () => ask('stats_tube', 'nowhere'))
  await step('stats', () => ask('stats'))
  await step('list-tubes', async () => (await ask('list_tubes')).sort())
}

async function consume (worker, producer) {
  await step('watch', () => worker('watch', 'mail'))
  await step('ignore', () => worker('ignore', 'default'))
  await step('ignore the last', () => worker('ignore', 'mail'))
  await step('watched', () => worker('list_tubes_watched'))
  await step('reserve', () => worker('reserve'))
  await step('touch', () => worker('touch', 1))
  await step('release', () => worker('release', 1, 0, 0))
  await step('reserve again', () => worker('reserve_with_timeout', 0))
  await step('bury', () => worker('bury', 1, 1000))
  await step('kick', () => producer('kick', 10))
  await step('kick-job none', () => producer('kick_job', 1))
  await step('pause', () => producer('pause_tube', 'mail', 1))
  await step('paused', () => worker('reserve_with_timeout', 0))
  await step('no more', () => worker('reserve_with_timeout', 5))
  await step('destroy', () => worker('destroy', 1))
  await step('destroy none', () => worker('destroy', 1))
  await step('destroy a delayed one', () => producer('destroy', 2))
}

// The library's own worker: it takes jobs of two tubes and says by a word what becomes of each.
async function work (producer) {
  const seen = []
  const handler = type => ({
    type,
    work (payload, callback) {
      seen.push(`${type} ${JSON.stringify(payload)}`)
      callback(...payload)
    }
  })
  for (const [tube, payload] of [['a', ['success']], ['b', ['bury']], ['a', ['release', 3600]]]) {
    await producer('use', tube)
    await producer('put', 0, 0, 30, JSON.stringify({ type: tube, payload }))
  }
  const worker = new fivebeans.worker({ // eslint-disable-line new-cap
    id: 'w', host, port, handlers: { a: handler('a'), b: handler('b') }, ignoreDefault: true, timeout: 1
  })
  const stopped = new Promise(resolve => worker.on('stopped', resolve))
  await new Promise(resolve => {
    let handled = 0
    worker.on('job.handled', () => {
      handled++
      if (handled === 3) resolve()
    })
    worker.start(['a', 'b'])
  })
  worker.stop()
  await stopped // after its last reserve has timed out
  await step('worked', async () => seen.sort())
  // Its connection ends in its own time: not before that is it gone from the statistics.
  while ((await producer('stats_tube', 'b'))['current-watching'] > 0);
  await step('a after work', () => producer('stats_tube', 'a'))
  await step('b after work', () => producer('stats_tube', 'b'))
}

async function main () {
  const clients = [await connected(), await connected()]
  const [producer, worker] = clients.map(done)
  await step('use', () => producer('use', 'mail'))
  await step('used', () => producer('list_tube_used'))
  await step('put', () => producer('put', 3, 0, 60, 'crème'))
  await step('put delayed', () => producer('put', 0, 3600, 60, Buffer.from([0, 13, 10, 255])))
  await step('put too big', () => producer('put', 0, 0, 60, Buffer.alloc(65536)))
  await look(producer)
  await consume(worker, producer)
  await work(producer)
  for (const client of clients) client.end()
}

main()
