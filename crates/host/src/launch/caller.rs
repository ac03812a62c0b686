//! The user who called sudo: the program runs as that user.

use super::environment::Environment;
use crate::error::Error;
use crate::error::Result;
use std::ffi::CStr;
use std::ffi::CString;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

/// Numbers and names of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    account: Option<Account>,
}

/// What the user database knows.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    name: CString,
    home: CString,
}

impl Caller {
    /// From `SUDO_UID` and `SUDO_GID`, if we are root by sudo; `None` if not, or if root called sudo.
    ///
    /// # Errors
    /// When the user's groups cannot be found.
    pub(super) fn from_sudo() -> Result<Option<Self>> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        match (number("SUDO_UID"), number("SUDO_GID")) {
            (Some(uid), Some(gid)) if uid != 0 => Self::find(uid, gid).map(Some),
            _ => Ok(None),
        }
    }

    fn find(uid: u32, gid: u32) -> Result<Self> {
        let account = find_account(uid)?;
        let groups = match &account {
            Some(account) => find_groups(&account.name, gid)?,
            None => vec![gid],
        };
        Ok(Caller {
            uid,
            gid,
            groups,
            account,
        })
    }

    /// Sets the variables that sudo changed.
    pub(super) fn describe_in(&self, environment: &mut Environment) {
        let Some(account) = &self.account else { return };
        let name = OsStr::from_bytes(account.name.to_bytes());
        let home = OsString::from(OsStr::from_bytes(account.home.to_bytes()));
        for (variable, value) in [
            ("HOME", home.as_os_str()),
            ("USER", name),
            ("LOGNAME", name),
        ] {
            // These names are always accepted.
            let _ = environment.change(OsStr::new(variable), Some(value));
        }
    }
}

/// `None`: the database does not know this user, as in a container.
fn find_account(uid: u32) -> Result<Option<Account>> {
    let mut buffer = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::zeroed();
        let mut found = ptr::null_mut();
        // SAFETY: all places are ours, the buffer has the length that is told.
        let status = unsafe {
            libc::getpwuid_r(
                uid,
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        match status {
            libc::ERANGE if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 2, 0),
            libc::EINTR => {}
            _ if status == 0 && !found.is_null() => {
                // SAFETY: filled by the call; its strings lie in `buffer`, which still lives.
                let (name, home) = unsafe {
                    let entry = entry.assume_init();
                    (
                        CStr::from_ptr(entry.pw_name).into(),
                        CStr::from_ptr(entry.pw_dir).into(),
                    )
                };
                return Ok(Some(Account { name, home }));
            }
            // getpwuid_r(3): all these mean "not found".
            0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => {
                let source = io::Error::from_raw_os_error(error);
                return Err(Error::system("look up the user who called sudo", source));
            }
        }
    }
}

fn find_groups(name: &CStr, gid: u32) -> Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
        // SAFETY: the list has the length that is told; the name ends with a zero byte.
        let status =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if status >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // NGROUPS_MAX of the kernel.
        if groups.len() > 65536 {
            let source = io::Error::from_raw_os_error(libc::E2BIG);
            return Err(Error::system(
                "look up the groups of the user who called sudo",
                source,
            ));
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_the_user_database() {
        let root = Caller::find(0, 0).expect("found");
        assert!(root.groups.contains(&0));
        let account = root.account.expect("an account");
        assert_eq!(account.name.to_str(), Ok("root"));
        assert!(account.home.to_bytes().starts_with(b"/"));
    }

    #[test]
    fn a_user_without_an_account_keeps_the_numbers() {
        let unknown = Caller::find(3_999_999_999, 3_999_999_998).expect("no error");
        assert_eq!(unknown.account, None);
        assert_eq!(unknown.groups, [3_999_999_998]);
    }
}
