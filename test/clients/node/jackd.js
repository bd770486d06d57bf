// jackd: promises, bodies as buffers, YAML left to the caller; speaks reserve-job.
// Its pauseTube forgets the end of the line (2.2.2), so the pause is asked for with one.
'use strict'

const Jackd = require('jackd')
const { host, port, step, pending, yaml } = require('./story')

const body = job => ({ id: job.id, body: job.payload.toString('latin1') })

async function produce (producer) {
  await step('use', () => producer.use('mail'))
  await step('used', () => producer.listTubeUsed())
  await step('put text', () => producer.put('hello', { ttr: 30 }))
  await step('put object', () => producer.put({ to: 'you' }, { priority: 5, ttr: 30 }))
  await step('put odd bytes', () => producer.put('\0\r\né', { priority: 9 }))
  await step('put the last', () => producer.put('last', { priority: 20 }))
  await step('put delayed', () => producer.put('later', { delay: 3600, ttr: 30 }))
  await step('put too big', () => producer.put('x'.repeat(65536)))
}

async function look (client) {
  await step('peek', async () => body(await client.peek(2)))
  await step('peek none', async () => body(await client.peek(99)))
  await step('peek ready', async () => body(await client.peekReady()))
  await step('peek delayed', async () => body(await client.peekDelayed()))
  await step('peek buried', async () => body(await client.peekBuried()))
  await step('stats-job', async () => yaml(await client.statsJob('5')))
  await step('stats-job none', () => client.statsJob('99'))
  await step('stats-tube', async () => yaml(await client.statsTube('mail')))
  await step('stats-tube none', () => client.statsTube('nowhere'))
  await step('stats', async () => yaml(await client.stats()))
  await step('list-tubes', async () => yaml(await client.listTubes()).sort())
}

async function consume (worker, producer) {
  await step('watch', () => worker.watch('mail'))
  await step('ignore', () => worker.ignore('default'))
  await step('ignore the last', () => worker.ignore('mail'))
  await step('watched', async () => yaml(await worker.listTubesWatched()))
  await step('reserve 1', async () => body(await worker.reserve()))
  await step('touch', () => worker.touch('1'))
  await step('touch by another', () => producer.touch('1'))
  await step('delete by another', () => producer.delete('1'))
  await step('delete', () => worker.delete('1'))
  await step('delete again', () => worker.delete('1'))
  await step('reserve 2', async () => body(await worker.reserveWithTimeout(0)))
  await step('release', () => worker.release('2', { priority: 15, delay: 0 }))
  await step('reserve 3', async () => body(await worker.reserveWithTimeout(0)))
  await step('bury', () => worker.bury('3', 40))
  await step('peek what is buried', async () => body(await producer.peekBuried()))
  await step('kick', () => producer.kick(10))
  await step('kick delayed ones', () => producer.kick(10))
  await step('kick-job none', () => producer.kickJob('2'))
  await step('reserve-job', async () => body(await worker.reserveJob(4)))
  await step('reserve-job again', async () => body(await worker.reserveJob(4)))
  await step('bury it', () => worker.bury('4'))
  await step('kick-job', () => producer.kickJob('4'))
}

async function order (worker) {
  for (const at of [1, 2, 3, 4]) {
    await step(`in order ${at}`, async () => {
      const job = await worker.reserveWithTimeout(0)
      await worker.delete(job.id)
      return body(job)
    })
  }
  await step('nothing left', async () => body(await worker.reserveWithTimeout(0)))
  await step('nothing in a second', async () => body(await worker.reserveWithTimeout(1)))
}

async function wait (worker, producer) {
  const job = worker.reserve()
  await pending('reserve', job, 100)
  await step('put', () => producer.put('wake up', { ttr: 1 }))
  await step('woken', async () => body(await job))
  await step('deadline soon', async () => body(await worker.reserve()))
  await worker.quit()
  await step('back after its holder left', async () => {
    await producer.watch('mail')
    return body(await producer.reserveWithTimeout(5))
  })
}

async function main () {
  const producer = new Jackd()
  const worker = new Jackd()
  await producer.connect({ host, port })
  await worker.connect({ host, port })
  await produce(producer)
  await look(producer)
  await consume(worker, producer)
  await order(worker)
  await step('pause', () => producer.pauseTube('mail', { delay: '0\r\n' }))
  await step('pause none', () => producer.pauseTube('nowhere', { delay: '0\r\n' }))
  await wait(worker, producer)
  await producer.quit()
}

main()
