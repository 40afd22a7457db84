//! The pages in Chromium: [`story`] is what an administrator does, [`pages`] holds each page against the accessibility
//! contract, [`hostile`] has the texts that must stay texts, [`script`] what the script adds,
//! [`elsewhere`] what other sites try. A new page is a line in [`world::World::pages`].

mod elsewhere;
mod hands;
mod hostile;
pub(crate) mod inspect;
mod pages;
mod script;
mod story;
mod world;
